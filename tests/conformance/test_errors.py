# SPDX-License-Identifier: Apache-2.0
"""Bad input is one sentence on stderr and exit 2, and nothing is written; weights that are not finite are named."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import Locant, Result
from models import FAMILIES, ModelShop, Variant, random_ids

Config = dict[str, Any]
IDS = random_ids(12, seed=101)


def refused(result: Result, *words: str) -> None:
    """Exit 2, `locant: <sentence>` on one line naming each of `words`, no answer and no file."""
    assert result.status == 2, f"exit {result.status}, stderr {result.stderr!r}"
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("locant: "), lines[0]
    assert result.stdout == b""
    for word in words:
        assert word in lines[0], f"{word!r} is not named: {lines[0]}"
    for file in (result.logits_file, result.trace_file):
        if file:
            assert list(file.parent.iterdir()) == [], "something was written"


def attempt(locant: Locant, model: Path | str, *flags: str, ids: Any = IDS) -> Result:
    return locant.attempt(model, *flags, ids=ids, logits=True, trace=True)


def setting(path: str, value: Any) -> Callable[[Config], None]:
    def change(config: Config) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            config = config.setdefault(parent, {})
        config[last] = value

    return change


def removing(key: str) -> Callable[[Config], None]:
    def change(config: Config) -> None:
        del config[key]

    return change


BAD_CONFIGS: dict[str, tuple[str, Callable[[Config], None], tuple[str, ...]]] = {
    "unknown model type": ("llama", setting("model_type", "lama"), ("model_type", "lama")),
    "no model type": ("llama", removing("model_type"), ("model_type",)),
    "known to others only": ("llama", setting("model_type", "mamba2"), ("mamba2",)),
    "unknown rope type": ("llama", setting("rope_parameters.rope_type", "spiral"), ("rope_type", "spiral")),
    "misspelt theta inside": ("llama", setting("rope_parameters.rope_thet", 5e5), ("rope_thet", "500000")),
    "misspelt theta": ("llama", setting("rope_thet", 5e5), ("rope_thet", "500000")),
    "partial rotation": ("llama", setting("partial_rotary_factor", 0.5), ("partial_rotary_factor", "0.5")),
    "sliding window": ("llama", setting("sliding_window", 64), ("sliding_window", "64")),
    "negative theta": ("llama", setting("rope_parameters.rope_theta", -1.0), ("rope_theta", "-1")),
    "theta in a string": ("llama", setting("rope_parameters.rope_theta", "10000"), ("rope_theta", '"10000"')),
    "layers in a string": ("llama", setting("num_hidden_layers", "3"), ("num_hidden_layers", '"3"')),
    "fractional heads": ("llama", setting("num_attention_heads", 4.5), ("num_attention_heads", "4.5")),
    "no heads": ("llama", setting("num_attention_heads", 0), ("num_attention_heads", "0")),
    "kv heads that do not divide": ("llama", setting("num_key_value_heads", 4), ("num_key_value_heads", "4", "9")),
    "no width of a head": ("llama", setting("head_dim", 0), ("head_dim", "0")),
    "huge heads": ("llama", setting("head_dim", 2**30), ("head_dim", str(2**30))),
    "odd head": ("llama", setting("head_dim", 9), ("even", "9")),
    "negative layers": ("llama", setting("num_hidden_layers", -3), ("num_hidden_layers", "-3")),
    "huge layers": ("llama", setting("num_hidden_layers", 2**62), ("num_hidden_layers",)),
    "missing size": ("llama", removing("hidden_size"), ("hidden_size",)),
    "unknown activation": ("llama", setting("hidden_act", "swoosh"), ("hidden_act", "swoosh")),
    "bias that is no boolean": ("llama", setting("attention_bias", "yes"), ("attention_bias", '"yes"')),
    "quantized": (
        "llama",
        setting("quantization_config", {"quant_method": "gptq", "bits": 4}),
        ("quantization_config",),
    ),
    "gpt2 width": ("gpt2", setting("n_head", 7), ("n_embd", "60", "7")),
    "gpt2 activation": ("gpt2", setting("activation_function", "swoosh"), ("activation_function", "swoosh")),
    "gpt2 cross attention": ("gpt2", setting("add_cross_attention", True), ("add_cross_attention", "true")),
    "gpt2 positions in a string": ("gpt2", setting("n_positions", "400"), ("n_positions", '"400"')),
    "bloom width": ("bloom", setting("n_head", 9), ("hidden_size", "56", "9")),
    "bloom residual in a string": (
        "bloom",
        setting("apply_residual_connection_post_layernorm", "false"),
        ("apply_residual_connection_post_layernorm", '"false"'),
    ),
    "xglm width": ("xglm", setting("attention_heads", 5), ("d_model", "52", "5")),
    "xglm scale in a number": ("xglm", setting("scale_embedding", 1.5), ("scale_embedding", "1.5")),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_bad_config(locant: Locant, shop: ModelShop, name: str) -> None:
    family, change, words = BAD_CONFIGS[name]
    refused(attempt(locant, shop.with_config(shop.get(family), change)), *words)


@pytest.mark.parametrize("text", ["", "{", "[]", '"llama"', '{"model_type": "llama"', "\x00\x01", '{"a": 1} x'])
def test_config_that_is_no_json_object(locant: Locant, shop: ModelShop, text: str) -> None:
    model = shop.copy(shop.get("llama"))
    (model / "config.json").write_text(text)
    refused(attempt(locant, model), "config.json")


def test_what_is_not_there(locant: Locant, shop: ModelShop, tmp_path: Path) -> None:
    refused(attempt(locant, tmp_path / "nowhere"), "nowhere")
    (tmp_path / "empty").mkdir()
    refused(attempt(locant, tmp_path / "empty"), "config.json")
    weightless = shop.copy(shop.get("llama"))
    (weightless / "model.safetensors").unlink()
    refused(attempt(locant, weightless), "safetensors")


# Weights -------------------------------------------------------------------------------------------


def rewrite_header(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    raw = file.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])


NORM = "model.norm.weight"
Damage = Callable[[Path], object]


def cut(count: int) -> Damage:
    return lambda file: file.write_bytes(file.read_bytes()[:count])


def header_size(value: int) -> Damage:
    return lambda file: file.write_bytes(struct.pack("<Q", value) + file.read_bytes()[8:])


def tensor(key: str, value: Any) -> Damage:
    return lambda file: rewrite_header(file, lambda header: header[NORM].update({key: value}))


DAMAGE: dict[str, Damage] = {
    "empty": cut(0),
    "7 bytes": cut(7),
    "8 bytes": cut(8),
    "within the header": cut(100),
    "within the data": cut(30000),
    "header past the end": header_size(2**40),
    "header of 2^64 - 1": header_size(2**64 - 1),
    "header that is no JSON": lambda file: file.write_bytes(struct.pack("<Q", 8) + b"notjson!"),
    "reversed offsets": tensor("data_offsets", [200, 100]),
    "offsets past the end": tensor("data_offsets", [2**40, 2**40 + 216]),
    "negative offsets": tensor("data_offsets", [-216, 0]),
    "shape of another size": tensor("shape", [55]),
    "huge shape": tensor("shape", [2**62, 16]),
    "negative shape": tensor("shape", [-54]),
    "unknown dtype": tensor("dtype", "F33"),
    "no shape": lambda file: rewrite_header(file, lambda header: header[NORM].pop("shape")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_weights(locant: Locant, shop: ModelShop, name: str) -> None:
    model = shop.copy(shop.get("llama"))
    DAMAGE[name](model / "model.safetensors")
    refused(attempt(locant, model), "model.safetensors")


TENSORS: dict[str, dict[str, str]] = {
    "llama": {"norm": NORM, "matrix": "model.layers.1.mlp.down_proj.weight"},
    "gpt2": {"norm": "transformer.ln_f.weight", "matrix": "transformer.h.1.mlp.c_proj.weight"},
    "bloom": {"norm": "transformer.ln_f.weight", "matrix": "transformer.h.1.mlp.dense_4h_to_h.weight"},
    "xglm": {"norm": "model.layer_norm.weight", "matrix": "model.layers.1.fc2.weight"},
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["norm", "matrix"])
def test_missing_tensor_is_named(locant: Locant, shop: ModelShop, family: str, kind: str) -> None:
    name = TENSORS[family][kind]
    model = shop.with_tensors(shop.get(family), lambda tensors: tensors.pop(name))
    refused(attempt(locant, model), name)


@pytest.mark.parametrize("family", FAMILIES)
def test_misshapen_tensor_is_named(locant: Locant, shop: ModelShop, family: str) -> None:
    name = TENSORS[family]["matrix"]

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = tensors[name][:, :-1]

    source = shop.get(family)
    model = shop.with_tensors(source, change)
    rows, columns = _shape(source, name)
    refused(attempt(locant, model), name, str(columns), str(columns - 1), str(rows))


def _shape(model: Path, name: str) -> tuple[int, int]:
    raw = (model / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    rows, columns = json.loads(raw[8 : 8 + size])[name]["shape"]
    return rows, columns


def test_integer_weights_are_refused(locant: Locant, shop: ModelShop) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[NORM] = tensors[NORM].to(torch.int32)

    refused(attempt(locant, shop.with_tensors(shop.get("llama"), change)), NORM)


def test_untied_head_must_be_there(locant: Locant, shop: ModelShop) -> None:
    model = shop.with_tensors(shop.get("llama"), lambda tensors: tensors.pop("lm_head.weight"))
    refused(attempt(locant, model), "lm_head.weight")


def test_missing_shard_is_named(locant: Locant, shop: ModelShop) -> None:
    model = shop.copy(shop.make(Variant("llama", max_shard_size="60KB")))
    shard = sorted(model.glob("model-*.safetensors"))[1]
    shard.unlink()
    refused(attempt(locant, model), shard.name)


def test_shard_outside_the_folder_is_refused(locant: Locant, shop: ModelShop) -> None:
    model = shop.copy(shop.make(Variant("llama", max_shard_size="60KB")))
    index = model / "model.safetensors.index.json"
    table = json.loads(index.read_text())
    first = next(iter(table["weight_map"]))
    table["weight_map"][first] = "../elsewhere.safetensors"
    index.write_text(json.dumps(table))
    refused(attempt(locant, model), "elsewhere.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weight_that_is_not_finite_is_named(locant: Locant, shop: ModelShop, family: str, value: float) -> None:
    name = TENSORS[family]["matrix"]

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name][3, 2] = value

    model = shop.with_tensors(shop.get(family), change)
    result = locant.run(model, ids=IDS)
    assert name in result.stderr
    notes = json.dumps(result.json["notes"])
    assert name in notes


def test_answer_of_a_broken_model_is_valid_json(locant: Locant, shop: ModelShop) -> None:
    """JSON has no NaN: numbers that are not finite are the strings "nan", "inf", "-inf"."""
    model = shop.with_tensors(shop.get("gpt2"), lambda tensors: tensors["transformer.ln_f.weight"].fill_(float("nan")))

    def reject(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    result = locant.attempt(model, ids=IDS)
    assert result.status == 0, result.stderr
    answer = json.loads(result.stdout, parse_constant=reject)
    assert "nan" in json.dumps(answer["rows"])


# Calls ---------------------------------------------------------------------------------------------


def test_id_outside_the_vocabulary(locant: Locant, shop: ModelShop) -> None:
    refused(attempt(locant, shop.get("llama"), ids=[5, 6, 997]), "997")
    refused(attempt(locant, shop.get("gpt2"), ids=[[5, 6, 7], [8, 9, 12345, 10]]), "12345", "row 1")
    refused(attempt(locant, shop.get("llama"), ids=[-1]), "-1")


@pytest.mark.parametrize("text", ["", "1,,2", "1,two", "1.5", "99999999999999999999", "1 2"])
def test_ids_that_are_no_numbers(locant: Locant, shop: ModelShop, text: str) -> None:
    result = locant.attempt(shop.get("llama"), "--ids", text, logits=True, trace=True)
    refused(result, "ids")


def test_ids_files(locant: Locant, shop: ModelShop, tmp_path: Path) -> None:
    model = shop.get("llama")
    bad: dict[str, np.ndarray[Any, Any]] = {
        "floats": np.ones(4, dtype=np.float32),
        "three axes": np.ones((1, 2, 3), dtype=np.int64),
    }
    for name, array in bad.items():
        file = tmp_path / f"{name.replace(' ', '-')}.npy"
        np.save(file, array)
        refused(attempt(locant, model, "--ids-file", str(file), ids=None), file.name)
    empty = locant.save(np.ones(0, dtype=np.int64))
    refused(attempt(locant, model, "--ids-file", str(empty), ids=None), "token")
    junk = tmp_path / "junk.npy"
    junk.write_bytes(b"\x93NUMPY\x01\x00")
    refused(attempt(locant, model, "--ids-file", str(junk), ids=None), "junk.npy")
    refused(attempt(locant, model, "--ids-file", str(tmp_path / "absent.npy"), ids=None), "absent.npy")


def test_positions_that_do_not_fit(locant: Locant, shop: ModelShop) -> None:
    model = shop.get("gpt2")
    short = locant.save(np.arange(5, dtype=np.int64))
    refused(attempt(locant, model, "--positions", str(short)), "5", "12")
    past = locant.save(np.arange(12, dtype=np.int64) + 390)
    refused(attempt(locant, model, "--positions", str(past)), "399")
    negative = locant.save(np.arange(12, dtype=np.int64) - 1)
    refused(attempt(locant, model, "--positions", str(negative)), "-1")


BAD_FLAGS = [
    (["--continue", "-1"], "continue"),
    (["--continue", "many"], "continue"),
    (["--pad", "middle"], "pad"),
    (["--weights", "f64"], "weights"),
    (["--cache", "f64"], "cache"),
    (["--threads", "0"], "threads"),
    (["--top", "-2"], "top"),
    (["--recipe", "nobody"], "nobody"),
    (["--run-dtype", "f8"], "run-dtype"),
    (["--start", "x"], "start"),
    (["--continu", "3"], "--continue"),
]


@pytest.mark.parametrize(
    ("flags", "word"), BAD_FLAGS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_flags(locant: Locant, shop: ModelShop, flags: list[str], word: str) -> None:
    refused(attempt(locant, shop.get("llama"), *flags), word)


def test_nothing_to_run(locant: Locant, shop: ModelShop) -> None:
    refused(attempt(locant, shop.get("llama"), ids=None))


def test_start_and_positions_exclude_each_other(locant: Locant, shop: ModelShop) -> None:
    positions = locant.save(np.arange(12, dtype=np.int64))
    refused(attempt(locant, shop.get("llama"), "--start", "3", "--positions", str(positions)), "--positions")


def test_misspelt_command_and_model(locant: Locant) -> None:
    result = locant.raw("rum")
    assert result.status == 2
    assert result.stderr.startswith("locant: ") and "run" in result.stderr
    result = locant.raw("run", "roep", "--ids", "5,6")
    assert result.status == 2
    assert "roep" in result.stderr and "rope" in result.stderr


def test_place_that_cannot_be_written(locant: Locant, shop: ModelShop, tmp_path: Path) -> None:
    for flag in ("--logits", "--trace", "-o"):
        target = tmp_path / "absent" / "file"
        result = locant.attempt(shop.get("llama"), flag, str(target), ids=IDS)
        assert result.status == 2, f"{flag}: exit {result.status}"
        assert str(target) in result.stderr or "absent" in result.stderr
        assert not (tmp_path / "absent").exists()
