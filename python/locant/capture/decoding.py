# SPDX-License-Identifier: Apache-2.0
"""Drives a model of transformers while it is recorded: a padded prompt, then greedy steps with its cache."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from locant.capture.modules import stacks, text_config
from locant.capture.recorder import Prompt, Recorder, Rows, prompt
from locant.capture.transformers import trace


def cache_argument(model: Any) -> str:
    """What a model calls its cache, as an argument and in its answer: transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def load_model(path: str | Path) -> Any:
    """A model of the class that its config names, else a causal one: f32, eager attention, from files alone."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    named = [getattr(transformers, name, None) for name in config.architectures or []]
    owner = next((one for one in named if one is not None), transformers.AutoModelForCausalLM)
    options = {"attn_implementation": "eager", "dtype": torch.float32, "local_files_only": True}
    return owner.from_pretrained(path, **options).eval()


def record_rows(model: Any, rows: Rows, *, steps: int = 0, pad: str = "left") -> Recorder:
    """Records a prompt of rows, filled up on one side, and greedy decode steps behind it, as generate() runs them.

    Of an encoder and a decoder the rows are the encoder's; the decoder starts with its start token. ValueError where
    an encoder is asked for decode steps.
    """
    fill = getattr(text_config(model), "pad_token_id", None)
    given = prompt("transformers", rows, pad, fill if isinstance(fill, int) and fill >= 0 else 0)
    both = len(stacks(model)) == 2
    if steps and not both and stacks(model)[0].encoder:
        raise ValueError("transformers: an encoder has one pass, it cannot take decode steps")
    was_training = model.training
    model.eval()
    try:
        with trace(model) as recorder:
            if both:
                _run_both(model, given, steps)
            else:
                _run(model, given, steps)
    finally:
        model.train(was_training)
    return recorder


def _run(model: Any, given: Prompt, steps: int) -> None:
    takes, name = inspect.signature(model.forward).parameters, cache_argument(model)
    ids, held, cache = torch.from_numpy(given.ids), torch.from_numpy(given.mask), None
    last = held.shape[1] - 1 - held.flip(-1).argmax(-1)
    for step in range(steps + 1):
        call: dict[str, Any] = {"input_ids": ids.to(model.device)}
        if given.uneven or step:
            call["attention_mask"] = held.to(model.device)
        if "position_ids" in takes and not stacks(model)[0].encoder:
            call["position_ids"] = (held.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :].to(model.device)
        if steps:
            call["use_cache"] = True
        if cache is not None:
            call[name] = cache
        out = model(**call)
        if step == steps:
            return
        cache = getattr(out, name)
        place = last if step == 0 else torch.zeros_like(last)
        ids = out.logits.cpu()[torch.arange(len(ids)), place].argmax(-1)[:, None]
        held = torch.cat([held, torch.ones(len(ids), 1, dtype=held.dtype)], -1)


def _run_both(model: Any, given: Prompt, steps: int) -> None:
    name = cache_argument(model)
    start = getattr(model.config, "decoder_start_token_id", None)
    ids = torch.full((len(given.ids), 1), start if isinstance(start, int) else 0)
    mask = torch.from_numpy(given.mask).to(model.device)
    call: dict[str, Any] = {"input_ids": torch.from_numpy(given.ids).to(model.device)}
    for step in range(steps + 1):
        out = model(**call, attention_mask=mask, decoder_input_ids=ids.to(model.device), use_cache=True)
        if step < steps:
            encoded = (out.encoder_last_hidden_state,)
            call = {"encoder_outputs": encoded, name: getattr(out, name)}
            ids = out.logits.cpu()[:, -1].argmax(-1)[:, None]


def record(job: Any) -> None:
    """Writes the trace that `locant trace --runtime hf` asks for: see locant.host.RecordJob."""
    record_rows(load_model(job.model), job.ids, steps=job.steps, pad=job.pad).save(job.output)
