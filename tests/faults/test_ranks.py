# SPDX-License-Identifier: Apache-2.0
"""Traces of several ranks: a recorded run cut into slices of tokens or of heads and vocabulary, right and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import passes
from detector import Detector

Tensors = dict[str, torch.Tensor]
LENGTH = 48
PLAIN = passes.Run(lengths=(LENGTH,), steps=0, mask=False)


def whole(detector: Detector, family: str) -> Tensors:
    return dict(passes.record(detector.zoo.model(family, "f32"), PLAIN).tensors)


def write(folder: Path, ranks: list[Tensors], dtype: str = "f32") -> Path:
    folder.mkdir(exist_ok=True)
    for rank, tensors in enumerate(ranks):
        metadata = {"locant.trace": "1", "locant.producer": "test", "locant.model": "cut", "locant.dtype": dtype,
                    "locant.rank": str(rank), "locant.world": str(len(ranks))}  # fmt: skip
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / f"rank{rank}.safetensors",
                  metadata)  # fmt: skip
    return folder


def ask(detector: Detector, family: str, traces: Path) -> list[dict[str, Any]]:
    result = detector.locant.raw("check", str(detector.zoo.path(family)), "--trace", str(traces), "--json")
    assert result.status in (0, 1), result.stderr
    return [finding for finding in result.json["findings"] if finding["severity"] != "note"]


def tokens_of(tensors: Tensors, chosen: torch.Tensor) -> Tensors:
    """A context-parallel rank: these tokens of every tensor that has them; no keys of other ranks."""
    cut: Tensors = {}
    for name, tensor in tensors.items():
        if "cache." in name or "scores" in name:
            continue
        cut[name] = tensor.index_select(1, chosen) if tensor.dim() >= 2 and tensor.shape[1] == LENGTH else tensor
    return cut


def zigzag(ranks: int) -> list[torch.Tensor]:
    pieces = torch.arange(LENGTH).chunk(2 * ranks)
    return [torch.cat([pieces[rank], pieces[2 * ranks - 1 - rank]]) for rank in range(ranks)]


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
def test_slices_of_a_row_are_silent(layout: str, detector: Detector, tmp_path: Path) -> None:
    tensors = whole(detector, "llama")
    slices = list(torch.arange(LENGTH).chunk(3)) if layout == "contiguous" else zigzag(2)
    assert ask(detector, "llama", write(tmp_path / "r", [tokens_of(tensors, part) for part in slices])) == []


def test_ranks_that_each_count_from_0(detector: Detector, tmp_path: Path) -> None:
    tensors = whole(detector, "llama")
    ranks = [tokens_of(tensors, part) for part in torch.arange(LENGTH).chunk(3)]
    for rank in ranks:
        rank["position_ids"] = torch.arange(LENGTH // 3)[None]
    found = ask(detector, "llama", write(tmp_path / "r", ranks))
    assert "P112" in [f["rule"] for f in found]
    first = next(f for f in found if f["rule"] == "P112")
    assert "each rank counts from 0" in first["message"]
    assert (first["expected"], first["observed"]) == (LENGTH // 3, 0)


def test_positions_that_a_rank_gives_again_and_none_gives(detector: Detector, tmp_path: Path) -> None:
    tensors = whole(detector, "llama")
    ranks = [tokens_of(tensors, part) for part in torch.arange(LENGTH).chunk(2)]
    ranks[1]["position_ids"] = ranks[1]["position_ids"] - 1
    found = ask(detector, "llama", write(tmp_path / "again", ranks))
    assert "rank 1 gives position 23 again" in next(f for f in found if f["rule"] == "P112")["message"]
    ranks[1]["position_ids"] = ranks[1]["position_ids"] + 3
    found = ask(detector, "llama", write(tmp_path / "hole", ranks))
    assert "no rank has position 24" in next(f for f in found if f["rule"] == "P112")["message"]


def test_an_unsliced_table_shows_in_q_and_k(detector: Detector, tmp_path: Path) -> None:
    """position_ids are those of the slice, and the rotation is that of the first tokens."""
    tensors = whole(detector, "llama")
    half = LENGTH // 2
    ranks = [tokens_of(tensors, part) for part in torch.arange(LENGTH).chunk(2)]
    # a second run whose rows begin with the tokens of the second half: their q and k at positions 0, 1, ...
    model = detector.zoo.model("llama", "f32")
    with passes.trace(model) as recorded:
        model(input_ids=tensors["input_ids"][:, half:])
    for name in list(ranks[1]):
        if name.startswith("layers.0.attn.") and name in recorded.tensors:
            ranks[1][name] = recorded.tensors[name]
        elif name.startswith("layers.") and not name.startswith("layers.0."):
            del ranks[1][name]
    del ranks[1]["rope.cos"], ranks[1]["rope.sin"]
    found = ask(detector, "llama", write(tmp_path / "r", ranks))
    assert [f["rule"] for f in found] == ["P103"], found
    assert (found[0]["expected"], found[0]["observed"]) == (half, 0)


def heads_of(tensors: Tensors, rank: int, world: int) -> Tensors:
    """A tensor-parallel rank: its heads, its rows of the vocabulary."""
    cut: Tensors = {}
    for name, tensor in tensors.items():
        if name.endswith(".attn.scores"):
            cut[name] = tensor.chunk(world, 1)[rank]
        elif (".attn." in name and tensor.dim() == 4) or ".cache." in name:
            cut[name] = tensor.chunk(world, 2)[rank]
        elif name == "logits":
            cut[name] = tensor.tensor_split(world, 2)[rank]
        else:
            cut[name] = tensor
    return cut


def test_shards_of_heads_are_silent_and_keep_their_slopes(detector: Detector, tmp_path: Path) -> None:
    tensors = whole(detector, "bloom")
    right = [heads_of(tensors, rank, 2) for rank in range(2)]
    assert ask(detector, "bloom", write(tmp_path / "right", right)) == []
    wrong = [heads_of(tensors, 0, 2), heads_of(tensors, 0, 2)]  # the second counts its heads from 0
    found = ask(detector, "bloom", write(tmp_path / "wrong", wrong))
    assert [f["rule"] for f in found] == ["B101"], found
    assert "rank1" in found[0]["where"]["file"]


def shard(tensors: Tensors, rank: int, world: int, rows: int) -> Tensors:
    """Rows rank * rows to (rank + 1) * rows of the vocabulary, zeros for other ids."""
    cut = heads_of(tensors, rank, world)
    own = (tensors["input_ids"] >= rank * rows) & (tensors["input_ids"] < (rank + 1) * rows)
    cut["embed.tokens"] = torch.where(own[..., None], tensors["embed.tokens"], torch.zeros(()))
    return cut


def test_ids_that_no_shard_owns(detector: Detector, tmp_path: Path) -> None:
    tensors = whole(detector, "llama")
    vocab, world = 97, 2
    with passes.trace(detector.zoo.model("llama", "f32")) as recorded:
        detector.zoo.model("llama", "f32")(input_ids=torch.arange(vocab)[None])
    tensors = dict(recorded.tensors)
    right = [shard(tensors, rank, world, -(-vocab // world)) for rank in range(world)]
    assert ask(detector, "llama", write(tmp_path / "right", right)) == []
    short = [shard(tensors, rank, world, vocab // world) for rank in range(world)]
    found = ask(detector, "llama", write(tmp_path / "short", short))
    assert [f["rule"] for f in found] == ["E110"]
    assert "id 96 has a row on 0 of them" in found[0]["message"]
    for rank in short:
        del rank["embed.tokens"]
    short[1]["logits"] = short[1]["logits"][..., :-1]
    found = ask(detector, "llama", write(tmp_path / "logits", short))
    assert [(f["rule"], f["expected"], f["observed"]) for f in found] == [("E110", vocab, vocab - 1)]


def refusal(detector: Detector, traces: Path) -> str:
    result = detector.locant.raw("check", "--trace", str(traces))
    assert result.status == 2
    return result.stderr.strip()


def test_bad_directories_are_one_sentence(detector: Detector, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has .safetensors files, this one has none" in refusal(detector, tmp_path / "empty")
    tensors = whole(detector, "llama")
    folder = write(tmp_path / "r", [tokens_of(tensors, part) for part in torch.arange(LENGTH).chunk(2)])
    (folder / "rank1.safetensors").rename(tmp_path / "away.safetensors")
    assert "locant.rank 0 to 0 and locant.world 1, got '0' and '2'" in refusal(detector, folder)
    (tmp_path / "away.safetensors").rename(folder / "rank1.safetensors")
    (folder / "rank2.safetensors").write_bytes((folder / "rank1.safetensors").read_bytes())
    assert "a directory of 3 traces" in refusal(detector, folder)
