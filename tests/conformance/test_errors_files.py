# SPDX-License-Identifier: Apache-2.0
"""Model files that do not agree with themselves: one sentence on stderr that names the key, the tensor or the byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from command import Locant
from family_zoo import Case, Zoo
from gguf_convert import convert
from models import ModelShop, edit_config
from test_errors import IDS, attempt, refused, setting
from test_gguf_families import FILES
from zoo_encoders import ENCODERS

Change = Callable[[bytes], bytes]
Q8_0 = 8


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    cases = {name: FILES[name].case for name in ("llama", "mixtral")}
    return Zoo(tmp_path_factory.mktemp("files"), {**cases, "albert": ENCODERS["albert two groups"]})


def written(zoo: Zoo, name: str, path: Path, **keys: int) -> Path:
    file = FILES[name]
    return convert(zoo.build(name), file.architecture, {**file.keys, **keys}, path / "model.gguf", file.changes)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def value_of(key: str, old: str, new: str) -> Change:
    """Of a string key; both of one length."""
    start = text(key) + struct.pack("<I", 8)
    return lambda raw: raw.replace(start + text(old), start + text(new), 1)


def type_of(tensor: str, number: int) -> Change:
    def change(raw: bytes) -> bytes:
        at = raw.index(text(tensor)) + len(text(tensor))
        axes = struct.unpack_from("<I", raw, at)[0]
        at += 4 + 8 * axes
        return raw[:at] + struct.pack("<I", number) + raw[at + 4 :]

    return change


def patch(file: Path, change: Change) -> None:
    before = file.read_bytes()
    file.write_bytes(change(before))
    assert file.read_bytes() != before


def test_row_that_is_no_multiple_of_the_block(locant: Locant, zoo: Zoo, tmp_path: Path) -> None:
    model = written(zoo, "llama", tmp_path)
    patch(model, type_of("blk.1.ffn_down.weight", Q8_0))
    refused(attempt(locant, model), "blk.1.ffn_down.weight", "32", "byte")


def test_architecture_that_run_does_not_know(locant: Locant, zoo: Zoo, tmp_path: Path) -> None:
    model = written(zoo, "llama", tmp_path)
    patch(model, value_of("general.architecture", "llama", "lamma"))
    refused(attempt(locant, model), "general.architecture", '"lamma"')


@pytest.mark.parametrize("part", [0.0, 0.001, 0.05, 0.5, 0.999])
def test_cut_gguf(locant: Locant, zoo: Zoo, tmp_path: Path, part: float) -> None:
    model = written(zoo, "llama", tmp_path)
    patch(model, lambda raw: raw[: int(len(raw) * part)])
    refused(attempt(locant, model), "model.gguf", "byte")


@pytest.mark.parametrize("part", [0.0, 0.00001, 0.01, 0.5, 0.999])
def test_cut_llama2c(locant: Locant, data: Path, tmp_path: Path, part: float) -> None:
    raw = (data / "stories260k" / "stories260K.bin").read_bytes()
    model = tmp_path / "model.bin"
    model.write_bytes(raw[: int(len(raw) * part)])
    refused(attempt(locant, model), "model.bin", "byte")


def test_tokenizer_that_is_not_read(locant: Locant, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes((data / "stories260k" / "stories260K-f32.gguf").read_bytes())
    patch(model, value_of("tokenizer.ggml.model", "llama", "lamma"))
    refused(attempt(locant, model, "--text", "Once", ids=None), "tokenizer.ggml.model", "lamma")
    assert locant.attempt(model, ids=[1, 403, 407]).status == 0


def test_vocabulary_against_the_head(locant: Locant, zoo: Zoo, shop: ModelShop, tmp_path: Path) -> None:
    model = written(zoo, "llama", tmp_path)
    patch(model, lambda raw: raw.replace(text("output.weight"), text("0utput.weight")))
    refused(attempt(locant, model), "0utput.weight")
    changed = shop.with_config(shop.get("llama"), setting("vocab_size", 998))
    refused(attempt(locant, changed), "model.embed_tokens.weight", "998", "997")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"expert_count": 6}, ("blk.0.ffn_gate_inp.weight", "[6,", "[5,")),
        ({"expert_used_count": 9}, ("llama.expert_used_count", "5", "9")),
        ({"expert_used_count": 0}, ("llama.expert_used_count", "5", "0")),
        ({"block_count": 9}, ("blk.", "missing")),
        ({"block_count": 1}, ("blk.1.", "1 layers")),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_mixture_against_its_tensors(
    locant: Locant, zoo: Zoo, tmp_path: Path, keys: dict[str, int], words: tuple[str, ...]
) -> None:
    refused(attempt(locant, written(zoo, "mixtral", tmp_path, **keys)), *words)


@pytest.mark.parametrize(("key", "value"), [("attention.key_length", 0), ("attention.head_count", 0)])
def test_heads_that_are_none(locant: Locant, zoo: Zoo, tmp_path: Path, key: str, value: int) -> None:
    refused(attempt(locant, written(zoo, "llama", tmp_path, **{key: value})), f"llama.{key}", "1", "0")


def test_groups_of_layers_that_do_not_divide(locant: Locant, zoo: Zoo, tmp_path: Path) -> None:
    zoo.build("albert").save_pretrained(tmp_path)
    edit_config(tmp_path, setting("num_hidden_groups", 3))
    refused(attempt(locant, tmp_path), "num_hidden_groups", "num_hidden_layers", "3")
    edit_config(tmp_path, setting("num_hidden_groups", 4))
    refused(attempt(locant, tmp_path), "albert_layer_groups.2")


def test_heads_of_a_projection_in_quarters(locant: Locant, tmp_path: Path) -> None:
    keys = {"n_embd": 36, "n_head": 4, "n_layer": 1, "rotary_dim": 4, "n_positions": 64, "n_ctx": 64}
    Zoo(tmp_path, {"codegen": Case("codegen", keys)}).build("codegen").save_pretrained(tmp_path)
    assert locant.attempt(tmp_path, ids=IDS).status == 0
    edit_config(tmp_path, setting("n_head", 6))
    refused(attempt(locant, tmp_path), "n_head", "multiple of 4", "6")
