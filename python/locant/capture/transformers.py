# SPDX-License-Identifier: Apache-2.0
"""Records the forward passes of a transformers model (PyTorch, version 5) as a trace.

What is recorded is what the model computes: hooks and wrappers read tensors on their way and change none. Scores
are the argument of the softmax itself, so that whatever a model adds to them is in them. Everything is put back
when the context ends. A path without an explicit softmax (sdpa, flash) has no scores in its trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from locant.capture.modules import stacks, text_config
from locant.capture.recorder import Prompt, Recorder, Rows, dtype_named, prompt
from locant.capture.session import Session

__all__ = ["Recorder", "load_model", "record", "record_rows", "trace"]


@contextmanager
def trace(model: Any) -> Iterator[Recorder]:
    """Records every forward pass of `model` inside the context: the first one, then step.1/, step.2/, ...

    With an encoder and a decoder each is recorded, the encoder behind "encoder."; an encoder has one pass, the first.

    >>> with trace(model) as recorded:
    ...     model(input_ids=ids)
    >>> recorded.save("run.safetensors")
    """
    import transformers

    parts = stacks(model)
    recorder = Recorder(
        f"transformers {transformers.__version__}",
        type(model).__name__,
        dtype_named(next(model.parameters()).dtype),
        "encoder" if len(parts) == 1 and parts[0].encoder else "",
    )
    with ExitStack() as opened, torch.no_grad():
        for part in parts:
            session = Session(recorder, model, part)
            opened.enter_context(session.stack)
            session.install()
        yield recorder


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
    takes = inspect.signature(model.forward).parameters
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
            call["past_key_values"] = cache
        out = model(**call)
        if step == steps:
            return
        cache = out.past_key_values
        place = last if step == 0 else torch.zeros_like(last)
        ids = out.logits.cpu()[torch.arange(len(ids)), place].argmax(-1)[:, None]
        held = torch.cat([held, torch.ones(len(ids), 1, dtype=held.dtype)], -1)


def _run_both(model: Any, given: Prompt, steps: int) -> None:
    start = getattr(model.config, "decoder_start_token_id", None)
    ids = torch.full((len(given.ids), 1), start if isinstance(start, int) else 0)
    mask = torch.from_numpy(given.mask).to(model.device)
    call: dict[str, Any] = {"input_ids": torch.from_numpy(given.ids).to(model.device)}
    for step in range(steps + 1):
        out = model(**call, attention_mask=mask, decoder_input_ids=ids.to(model.device), use_cache=True)
        if step < steps:
            encoded = (out.encoder_last_hidden_state,)
            call = {"encoder_outputs": encoded, "past_key_values": out.past_key_values}
            ids = out.logits.cpu()[:, -1].argmax(-1)[:, None]


def record(job: Any) -> None:
    """Writes the trace that `locant trace --runtime hf` asks for: see locant.host.RecordJob."""
    record_rows(load_model(job.model), job.ids, steps=job.steps, pad=job.pad).save(job.output)
