# SPDX-License-Identifier: Apache-2.0
"""What the six scripts share: a bundled model in transformers, a padded batch with decoding, what check says of it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers

import locant

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
MODELS = Path(__file__).resolve().parents[2] / "models"
LENGTHS = (17, 24)  # content of each row, padded on the left


def load(name: str) -> Any:
    path = MODELS / name
    return transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").eval()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """ids and mask [B, T]."""
    width = max(LENGTHS)
    ids = torch.randint(5, 250, (len(LENGTHS), width), generator=torch.Generator().manual_seed(1))
    mask = torch.stack([(torch.arange(width) >= width - length).long() for length in LENGTHS])
    return ids, mask


def run(model: Any, *, positions: Any = None, steps: int = 2) -> None:
    """A prompt and `steps` tokens more. `positions(mask, step)` gives the position_ids of all columns so far."""
    ids, mask = batch()
    cache = None
    for step in range(steps + 1):
        right = (mask.cumsum(-1) - 1).clamp(min=0)
        given = right if positions is None else positions(mask, step)
        out = model(
            input_ids=ids, attention_mask=mask, position_ids=given[:, -ids.shape[1] :], cache=cache, use_cache=True
        )  # fmt: skip
        cache = out.cache
        ids = out.logits[:, -1:].argmax(-1)
        mask = torch.cat([mask, torch.ones_like(ids)], 1)


def show(
    name: str, *, fault: AbstractContextManager[Any] | None = None, positions: Any = None, config: Any = None
) -> None:
    """Records the model with the fault and prints what `locant check` says; without it, that nothing is found."""
    model = load(name)
    for title, context, ids in (
        ("as it is", nullcontext(), None),
        ("with the fault", fault or nullcontext(), positions),
    ):
        with context, locant.trace(model) as recorded:
            run(model, positions=ids)
        judged = config if config is not None and title == "with the fault" else MODELS / name
        report = locant.check(judged, trace=recorded)
        found = [finding for finding in report.findings if finding.severity != "note"]
        print(f"{title}: {len(found)} found")
        for finding in found:
            print(f"  {finding.rule} {finding.name}: {finding.message}")
    sys.exit(0 if report else 1)
