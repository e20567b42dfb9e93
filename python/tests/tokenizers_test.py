# SPDX-License-Identifier: Apache-2.0
"""Text to ids through the package `tokenizers`: GGUF vocabularies, tokenizer.json, and what is refused."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import Tokenizer

import locant
from locant import SpecError, _locant
from locant.gguf_text import SPLITS, open_gguf
from locant.text import HubTokenizer, open_tokenizer
from tiny import ROOT

BETWEEN = "\n__ggml_vocab_test__\n"
TEXTS = [
    "Hello world, it's 12345 o'clock!\n\n  Isn't   it?",
    "Ça va? 你好，世界 🙂\tx",
    "def f(a):\n    return a**2  # 3.14",
    "WE'LL SEE 1,000,000\r\nnext",
    "",
]


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get("LOCANT_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "ggml-vocab-gguf").is_dir():
        pytest.skip("no folder of real vocabularies (LOCANT_DATA)")
    return folder


@pytest.mark.parametrize("name", ["gpt-2", "mpt", "falcon", "bert-bge"])
def test_gguf_vocabularies_give_the_published_ids(data: Path, name: str) -> None:
    path = data / "ggml-vocab-gguf" / f"ggml-vocab-{name}.gguf"
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split(BETWEEN)[:-1]
    want = [[int(word) for word in line.split()] for line in path.with_suffix(".gguf.out").read_text().splitlines()]
    tokenizer = open_gguf(path)
    assert len(texts) == len(want) > 40
    for text, ids in zip(texts, want, strict=True):
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids, repr(text)


def test_a_bert_vocabulary_frames_its_text(data: Path) -> None:
    tokenizer = open_tokenizer(data / "ggml-vocab-gguf" / "ggml-vocab-bert-bge.gguf")
    assert tokenizer.encode("Hello") == [101, 7592, 102]
    assert tokenizer.decode([101, 7592, 19204, 17629, 102]) == "hello tokenizer"


def test_the_native_byte_map_is_the_rank_file(data: Path) -> None:
    native, why_not = _locant.open_tokenizer(str(data / "ggml-vocab-gguf" / "ggml-vocab-gpt-2.gguf"))
    assert native is not None
    assert "does not make" in why_not
    lines = (data / "tiktoken-gpt2" / "gpt2.tiktoken").read_text().split("\n")
    ranks = [line.split() for line in lines if line]
    assert len(ranks) == 50256
    for token, rank in ranks:
        assert native.decode([int(rank)]) == base64.b64decode(token).decode("utf-8", "replace")


@pytest.mark.parametrize("name", ["bert-uncased-wordpiece", "llama3-style-bpe-2000", "qwen2-style-bpe-2000"])
def test_any_tokenizer_json(data: Path, tmp_path: Path, name: str) -> None:
    source = data / "hf-tokenizer-json" / f"{name}.tokenizer.json"
    shutil.copy(source, tmp_path / "tokenizer.json")
    tokenizer = open_tokenizer(tmp_path)
    assert isinstance(tokenizer, HubTokenizer)
    own = Tokenizer.from_file(str(source))
    for text in TEXTS:
        assert tokenizer.encode(text) == own.encode(text).ids


def write_vocabulary(path: Path, pre: str | None, **more: Any) -> Path:
    """Letters, a space and a few merges, as a GGUF file without tensors."""
    tokens = ["<|end|>", *map(chr, range(33, 127)), "Ġ", "Ċ", "ab", "Ġa", "12", "123", "<mark>"]
    types = [3, *[1] * (len(tokens) - 2), 4]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(more.get("merges", ["a b", "Ġ a", "1 2", "12 3"]))
    writer.add_bos_token_id(0)
    if "add_bos" in more:
        writer.add_add_bos_token(more["add_bos"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def pieces(path: Path, text: str) -> list[str]:
    tokenizer = open_tokenizer(path)
    return [tokenizer.piece(id) for id in tokenizer.encode(text)]


def test_what_splits_a_text_is_named_by_the_file(tmp_path: Path) -> None:
    assert pieces(write_vocabulary(tmp_path / "a.gguf", "gpt-2"), "ab a123") == ["ab", "Ġa", "123"]
    assert pieces(write_vocabulary(tmp_path / "b.gguf", "smollm"), "ab a123") == ["ab", "Ġa", "1", "2", "3"]
    assert pieces(write_vocabulary(tmp_path / "c.gguf", "qwen2"), "a123") == ["a", "1", "2", "3"]
    assert pieces(write_vocabulary(tmp_path / "d.gguf", None), "a123") == ["a", "123"]


def test_special_and_added_tokens(tmp_path: Path) -> None:
    path = write_vocabulary(tmp_path / "a.gguf", "gpt-2", add_bos=True)
    assert pieces(path, "ab<mark>a<|end|>") == ["<|end|>", "ab", "<mark>", "a", "<|end|>"]
    tokenizer = open_tokenizer(path)
    assert tokenizer.decode(tokenizer.encode("ab<mark> a<|end|>")) == "ab<mark> a"
    assert pieces(write_vocabulary(tmp_path / "b.gguf", "llama-bpe"), "a") == ["<|end|>", "a"]
    assert pieces(write_vocabulary(tmp_path / "c.gguf", "llama-bpe", add_bos=False), "a") == ["a"]


def test_an_unknown_pre_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    path = write_vocabulary(tmp_path / "a.gguf", "gpt-5")
    with pytest.raises(SpecError, match="got gpt-5"):
        open_tokenizer(path)
    status, _, notes = _locant.command_text(["run", str(path), "--text", "a"])
    assert status == 2
    assert len(notes.splitlines()) == 1


def test_bad_merges_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a merge is two pieces"):
        open_tokenizer(write_vocabulary(tmp_path / "a.gguf", "gpt-2", merges=["ab"]))
    with pytest.raises(SpecError, match=r"tokenizer\.ggml\.merges"):
        open_tokenizer(write_vocabulary(tmp_path / "b.gguf", "gpt-2", merges=["a ~~"]))


def test_every_split_compiles(tmp_path: Path) -> None:
    for pre in SPLITS:
        path = write_vocabulary(tmp_path / f"{pre}.gguf", pre, add_bos=False)
        tokenizer = open_tokenizer(path)
        assert tokenizer.decode(tokenizer.encode("ab a12 !!\n")) == "ab a12 !!\n", pre


def test_drawn_tokens_are_those_of_the_command() -> None:
    model = locant.load("rope")
    ids = model.tokenizer.encode("It is")
    drawn = model.generate([ids, ids], 12, temperature=0.9, top_k=30, top_p=0.95, seed=7)
    assert drawn[0] != drawn[1]
    assert drawn == model.generate([ids, ids], 12, temperature=0.9, top_k=30, top_p=0.95, seed=7)
    flags = "--continue 12 --temperature 0.9 --top-k 30 --top-p 0.95 --seed 7 --json --threads 1"
    status, answer, _ = _locant.command_text(["run", "rope", "--text", "It is", *flags.split()])
    assert status == 0
    assert json.loads(answer)["rows"][0]["continuation"]["ids"] == drawn[0]
    with pytest.raises(SpecError, match="temperature must be"):
        model.generate(ids, 3, temperature=-1)


def test_a_prompt_is_neither_padded_nor_cut(tmp_path: Path) -> None:
    own = Tokenizer.from_str(
        json.dumps(
            {
                "version": "1.0",
                "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "a": 1, "b": 2}, "unk_token": "[PAD]"},
                "pre_tokenizer": {"type": "Whitespace"},
                "added_tokens": [],
            }
        )
    )
    own.enable_padding(length=8, pad_id=0, pad_token="[PAD]")
    own.enable_truncation(max_length=2)
    own.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("a b a").ids == [1, 2, 0, 0, 0, 0, 0, 0]
    assert open_tokenizer(tmp_path).encode("a b a") == [1, 2, 1]


def test_a_text_is_utf8(data: Path, tmp_path: Path) -> None:
    shutil.copy(data / "hf-tokenizer-json" / "bert-uncased-wordpiece.tokenizer.json", tmp_path / "tokenizer.json")
    shutil.copy(ROOT / "models" / "rope" / "config.json", tmp_path)
    (tmp_path / "model.safetensors").write_bytes((ROOT / "models" / "rope" / "model.safetensors").read_bytes())
    (tmp_path / "bad.txt").write_bytes(b"a\xff")
    done = _locant.command_text(["run", str(tmp_path), "--text-file", str(tmp_path / "bad.txt")])
    assert done == (2, "", "locant: text: a text must be UTF-8, this one is not\n")
