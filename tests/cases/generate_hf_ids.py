#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of position ids from the live transformers package.

usage: generate_hf_ids.py [--check]
Writes hf_pad_offset_ids.json, hf_masked_tail_ids.json, hf_padded_ids.json, hf_mrope_ids.json and hf_grids.json beside
this file; --check compares instead.
"""

import sys
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModel
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.vision_utils import get_vision_cu_seqlens, get_vision_position_ids

from golden_files import write_or_check

MODELS = {"qwen2_vl": Qwen2VLModel, "qwen2_5_vl": Qwen2_5_VLModel, "qwen3_vl": Qwen3VLModel}


def provenance(*sources: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate_hf_ids.py",
        "package": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU",
        "source": "; ".join(sources),
    }


def pad_offset_ids() -> dict[str, Any]:
    cases = []
    owners = {"roberta": RobertaEmbeddings, "m2m_100": M2M100SinusoidalPositionalEmbedding}
    for family, pad_id, past, ids in (
        ("roberta", 1, 0, [[0, 5, 6, 7, 2, 1, 1], [0, 5, 2, 1, 1, 1, 1], [1, 1, 0, 5, 1, 7, 2]]),
        ("roberta", 0, 0, [[4, 5, 6], [0, 0, 3]]),
        ("m2m_100", 1, 0, [[1, 1, 8, 9, 2], [3, 4, 5, 6, 2]]),
        ("m2m_100", 1, 300, [[7], [1]]),
        ("roberta", 5, 2047, [[5, 9, 9, 5]]),
    ):
        made = owners[family].create_position_ids_from_input_ids(torch.tensor(ids), pad_id, past)
        cases.append({"family": family, "pad_id": pad_id, "past": past, "ids": ids, "positions": made.tolist()})
    source = "create_position_ids_from_input_ids of RoBERTa and M2M100"
    return {"provenance": provenance(source), "cases": cases}


def masked_tail_ids() -> dict[str, Any]:
    cases = []
    for past, mask in (
        (0, [[1, 1, 1, 1]]),
        (3, [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
        (4, [[0, 1, 1, 1, 1], [1, 1, 0, 0, 1]]),
        (2, [[1, 0, 0, 1, 1, 0]]),
    ):
        table = OPTLearnedPositionalEmbedding(16, 1)
        with torch.no_grad():
            table.weight[:, 0] = torch.arange(18)
            rows = table(torch.tensor(mask), past)[..., 0].long()
        cases.append({"past": past, "mask": mask, "positions": (rows - 2).tolist()})
    source = "OPTLearnedPositionalEmbedding over a table of row numbers, less its offset"
    return {"provenance": provenance(source), "cases": cases}


TINY: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32},
    "llama": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
    "xglm": {"d_model": 8, "num_layers": 1, "attention_heads": 2, "ffn_dim": 8},
    "opt": {
        "hidden_size": 8,
        "word_embed_proj_dim": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "ffn_dim": 8,
        "max_position_embeddings": 32,
    },
    "biogpt": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
    "roberta": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "max_position_embeddings": 40,
    },
}
# The module that takes positions or rows, and what it adds to positions before this point.
TAKES = {
    "gpt2": ("wpe", 0),
    "llama": ("rotary_emb", 0),
    "xglm": ("embed_positions", 0),
    "opt": ("decoder.embed_positions", 0),
    "biogpt": ("embed_positions", 0),
    "roberta": ("embeddings.position_embeddings", 2),
}


def padded_ids() -> dict[str, Any]:
    """What a padded batch without position ids gets, caught on its way into the table or the rotation."""
    cases = []
    mask = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    ids = [[5 if bit else 1 for bit in row] for row in mask]
    for family, sizes in TINY.items():
        config = AutoConfig.for_model(family, vocab_size=16, pad_token_id=1, bos_token_id=2, eos_token_id=3, **sizes)
        model = AutoModel.from_config(config).eval()
        name, offset = TAKES[family]
        seen: list[torch.Tensor] = []

        def catch(module: Any, given: Any, named: Any, seen: list[torch.Tensor] = seen) -> None:
            found = named.get("position_ids")
            if found is None:
                found = [one for one in given if isinstance(one, torch.Tensor) and one.dtype == torch.long][-1]
            seen.append(found)

        model.get_submodule(name).register_forward_pre_hook(catch, with_kwargs=True)
        with torch.no_grad():
            model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask))
        rows = seen[0].expand(len(mask), -1).tolist()
        cases.append({"family": family, "mask": mask, "offset": offset, "rows": rows})
    return {"provenance": provenance("a forward pass without position_ids, caught by a hook"), "cases": cases}


def row_of(parts: list[tuple[int, int]]) -> list[int]:
    """Kinds of a row from (kind, tokens)."""
    return [kind for kind, tokens in parts for _ in range(tokens)]


def padded(rows: list[list[int]], side: str) -> tuple[list[list[int]], list[list[int]]]:
    width = max(map(len, rows))
    left = side == "left"
    kinds = [[0] * (width - len(row)) * left + row + [0] * (width - len(row)) * (not left) for row in rows]
    mask = [[0] * (width - len(row)) * left + [1] * len(row) + [0] * (width - len(row)) * (not left) for row in rows]
    return kinds, mask


def mrope_ids() -> dict[str, Any]:
    wide, tall, clip, long_clip = [1, 4, 8], [1, 8, 4], [3, 4, 6], [10, 4, 4]
    text_image = row_of([(0, 5), (1, 8), (0, 4)])
    two_images = row_of([(0, 2), (1, 8), (0, 3), (1, 8), (0, 2)])
    video = row_of([(0, 3), (2, 18), (0, 6)])
    long_video = row_of([(0, 300), (2, 40), (0, 3)])
    frames = row_of([(0, 3), (2, 6), (0, 4), (2, 6), (0, 4), (2, 6), (0, 5)])
    only_text = row_of([(0, 9)])
    ends_in_video = row_of([(0, 2), (2, 40)])
    batches: list[tuple[str, list[list[int]], str, list[list[int]], list[list[int]], list[float], float]] = [
        ("qwen2_vl", [text_image], "left", [wide], [], [], 1),
        ("qwen2_vl", [two_images, text_image, only_text], "left", [wide, tall, wide], [], [], 1),
        ("qwen2_vl", [text_image, video], "right", [tall], [clip], [], 1),
        ("qwen2_vl", [ends_in_video, only_text], "right", [], [long_clip], [], 1),
        ("qwen2_5_vl", [text_image, video], "left", [wide], [clip], [1.0], 2),
        ("qwen2_5_vl", [video, long_video], "left", [], [clip, long_clip], [0.5, 0.1], 2),
        ("qwen2_5_vl", [long_video], "left", [], [long_clip], [1.7], 25),
        ("qwen2_5_vl", [ends_in_video], "left", [], [long_clip], [0.3], 4),
        ("qwen3_vl", [text_image, frames], "left", [wide], [clip], [], 1),
        ("qwen3_vl", [two_images, frames, only_text], "right", [wide, tall], [clip], [], 1),
    ]
    cases = []
    for family, rows, side, images, videos, seconds, tokens_per_second in batches:
        kinds, mask = padded(rows, side)
        vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=tokens_per_second)
        owner: Any = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
        model = MODELS[family]
        owner.get_vision_position_ids = lambda *given, model=model, owner=owner, **named: model.get_vision_position_ids(
            owner, *given, **named
        )
        given = {"second_per_grid_ts": torch.tensor(seconds)} if seconds else {}
        ids, deltas = model.get_rope_index(
            owner,
            torch.zeros(len(rows), len(kinds[0]), dtype=torch.long),
            torch.tensor(kinds),
            torch.tensor(images) if images else None,
            torch.tensor(videos) if videos else None,
            attention_mask=torch.tensor(mask),
            **given,
        )
        cases.append(
            {
                "family": family,
                "merge": 2,
                "tokens_per_second": tokens_per_second,
                "kinds": kinds,
                "mask": mask,
                "images": images,
                "videos": videos,
                "seconds": seconds,
                "ids": ids.tolist(),
                "deltas": deltas[:, 0].tolist(),
            }
        )
    return {"provenance": provenance("get_rope_index of Qwen2-VL, Qwen2.5-VL and Qwen3-VL"), "cases": cases}


def grids() -> dict[str, Any]:
    cases = []
    for merge, shapes in (
        (1, [[1, 2, 3]]),
        (2, [[1, 4, 6], [3, 2, 2]]),
        (2, [[2, 8, 4]]),
        (3, [[1, 6, 9], [2, 3, 3]]),
    ):
        given = torch.tensor(shapes)
        cases.append(
            {
                "merge": merge,
                "grids": shapes,
                "positions": get_vision_position_ids(given, merge, include_temporal=True).T.tolist(),
                "boundaries": get_vision_cu_seqlens(given).tolist(),
            }
        )
    return {"provenance": provenance("vision_utils, get_vision_position_ids and get_vision_cu_seqlens"), "cases": cases}


if __name__ == "__main__":
    makes = {f"hf_{make.__name__}": make for make in (pad_offset_ids, masked_tail_ids, padded_ids, mrope_ids, grids)}
    sys.exit(write_or_check(makes, __doc__, lambda old, new: old == new))
