# SPDX-License-Identifier: Apache-2.0
"""Ways to run a model while it is recorded: padded batches, long rows, packed documents, chunks, evicted caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from locant.capture.transformers import Recorder, trace
from zoo import COUNTS_ALONE


@dataclass(frozen=True)
class Run:
    lengths: tuple[int, ...] = (17, 24)  # content of each row, padded on the left to the longest
    steps: int = 2  # decode passes of one token
    chunk: int = 0  # tokens of a second pass between prompt and decoding
    mask: bool = True  # is attention_mask passed
    ids: bool = True  # are position_ids passed
    documents: tuple[int, ...] = ()  # of a packed row: positions start over at each
    keep: int = 0  # of the cache after the prompt: this many of its last keys stay
    seed: int = 3


PADDED = Run()
PLAIN = Run(lengths=(24, 24), mask=False)
BARE = replace(PADDED, ids=False)
LONG = Run(lengths=(320,), steps=1, mask=False)
MIDDLE = Run(lengths=(120,), steps=1, mask=False)
SHORT = Run(lengths=(24,), steps=2, mask=False)
CHUNK = Run(lengths=(24, 24), chunk=6, mask=False)
PACKED = Run(lengths=(24,), steps=0, mask=False, documents=(10, 14))
EVICTED = Run(lengths=(24,), steps=3, mask=False, keep=12)


def record(model: Any, run: Run) -> Recorder:
    """One prompt, perhaps a chunk, then decoding, all recorded."""
    with trace(model) as recorded:
        _run(model, run)
    return recorded


def _run(model: Any, run: Run) -> None:
    if hasattr(model.config, "vision_config"):
        _run_vision(model, run)
        return
    generator = torch.Generator().manual_seed(run.seed)
    kind = model.config.model_type
    rows, width = len(run.lengths), max(run.lengths)
    vocab = model.config.get_text_config().vocab_size

    def tokens(count: int) -> torch.Tensor:
        return torch.randint(5, vocab - 6, (rows, count), generator=generator)

    mask = torch.ones(rows, width, dtype=torch.long)
    for row, length in enumerate(run.lengths):
        mask[row, : width - length] = 0
    ids = tokens(width)
    ids[mask == 0] = getattr(model.config, "pad_token_id", None) or 0
    cache = None
    for count in (width, *([run.chunk] if run.chunk else []), *([1] * run.steps)):
        first = cache is None
        if not first:
            ids = tokens(count)
            mask = torch.cat([mask, torch.ones(rows, count, dtype=torch.long)], 1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -count:]
        given: dict[str, Any] = {}
        if run.documents and first:
            starts = torch.tensor([0, *torch.tensor(run.documents).cumsum(0).tolist()[:-1]])
            index = torch.repeat_interleave(torch.arange(len(run.documents)), torch.tensor(run.documents))
            positions = (torch.arange(width) - starts[index])[None]
            given["seq_idx"] = index[None].to(torch.int32)
        if run.ids and kind not in COUNTS_ALONE and not getattr(model.config, "alibi", False):
            given["position_ids"] = positions
        if run.mask:
            given["attention_mask"] = mask
        if cache is not None:
            given["past_key_values"] = cache
        # with a cache transformers does not look for documents
        out = model(input_ids=ids, use_cache=not run.documents, **given)
        cache = getattr(out, "past_key_values", None)
        if run.keep and first and cache is not None:
            for layer in cache.layers:
                layer.keys, layer.values = layer.keys[:, :, -run.keep :], layer.values[:, :, -run.keep :]


IMAGES = ((4, 8), (8, 4))  # patches; four of them are one token
IMAGE, BEGIN, END = 90, 92, 93


def _run_vision(model: Any, run: Run) -> None:
    """Text, an image, text, another image, text; then decoding behind them."""
    generator = torch.Generator().manual_seed(run.seed)
    ids = [5, 6, 7]
    for height, width in IMAGES:
        ids += [BEGIN, *[IMAGE] * (height * width // 4), END, 8, 9, 10, 11]
    row = torch.tensor([ids])
    pixels = torch.randn(sum(h * w for h, w in IMAGES), 3 * 2 * 16, generator=generator).to(model.dtype)
    mask = torch.ones_like(row)
    out = model(
        input_ids=row,
        pixel_values=pixels,
        image_grid_thw=torch.tensor([(1, *image) for image in IMAGES]),
        mm_token_type_ids=(row == IMAGE).to(torch.int32),
        attention_mask=mask,
        use_cache=True,
    )
    for step in range(run.steps):
        mask = torch.cat([mask, torch.ones(1, 1, dtype=torch.long)], 1)
        position = len(ids) + step + int(model.model.rope_deltas)
        out = model(
            input_ids=torch.tensor([[20 + step]]),
            attention_mask=mask,
            position_ids=torch.full((3, 1, 1), position),
            past_key_values=out.past_key_values,
            use_cache=True,
        )
