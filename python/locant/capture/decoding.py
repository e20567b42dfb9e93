# SPDX-License-Identifier: Apache-2.0
"""Drives a causal model of transformers while it is recorded: a padded prompt, then greedy steps with its cache."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from locant.capture.transformers import Recorder, trace


def load_model(path: str) -> Any:
    """A causal language model in f32 with eager attention, from files alone."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        path, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    )
    return model.eval()


def cache_argument(model: Any) -> str:
    """What a model calls its cache, as an argument and in its answer: transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def record_rows(model: Any, rows: list[list[int]], *, steps: int = 0, pad: str = "left") -> Recorder:
    """Records a prompt of rows, filled up on one side, and greedy decode steps behind it, as generate() runs them."""
    if not rows or not all(rows):
        raise ValueError("record: every row must hold a token or more")
    if pad not in ("left", "right"):
        raise ValueError(f"record: padding stands left or right, got {pad}")
    width = max(len(row) for row in rows)
    fill = model.config.get_text_config().pad_token_id
    ids = torch.full((len(rows), width), fill if isinstance(fill, int) and fill >= 0 else 0)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        place = slice(width - len(row), width) if pad == "left" else slice(0, len(row))
        ids[index, place] = torch.tensor(row)
        mask[index, place] = 1
    uneven = bool((mask == 0).any())
    takes, name = inspect.signature(model.forward).parameters, cache_argument(model)
    was_training = model.training
    model.eval()
    try:
        with trace(model) as recorder:
            cache, held = None, mask
            for step in range(steps + 1):
                given: dict[str, Any] = {"input_ids": ids.to(model.device), "use_cache": True}
                if uneven or step:
                    given["attention_mask"] = held.to(model.device)
                if "position_ids" in takes:
                    places = (held.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
                    given["position_ids"] = places.to(model.device)
                if cache is not None:
                    given[name] = cache
                out = model(**given)
                cache = getattr(out, name)
                last = held.shape[1] - 1 - held.flip(-1).argmax(-1) if step == 0 else torch.zeros(len(rows)).long()
                ids = out.logits.cpu()[torch.arange(len(rows)), last].argmax(-1)[:, None]
                held = torch.cat([held, torch.ones(len(rows), 1, dtype=held.dtype)], -1)
    finally:
        model.train(was_training)
    return recorder


def record(job: Any) -> None:
    """What `locant trace --runtime hf` asks for: see locant.host.RecordJob."""
    record_rows(load_model(job.model), job.ids, steps=job.steps, pad=job.pad).save(job.output)
