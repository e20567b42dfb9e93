"""Stretch the bundled `rope` to four times its length with YaRN, train it on, and store it as `rope-yarn`.

    python training/extend.py --text DIR [--models models] [--steps N]

Same data as train.py in longer windows, one thread, its own seed: a rerun adds up in the same order. The held-out
novel is not read here.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from byte_models import LENGTH, training_texts
from train import CLIP, optimizer_for, rate, store

SOURCE = "rope"
NAME = "rope-yarn"
FACTOR = 4
EXTENDED = FACTOR * LENGTH
# 32 turns as published need 201 positions of a pair that turns once in 2 pi: inside 128 none makes them, and every
# pair would be slowed. 8 turns keep the two fastest, as 32 do in models of ordinary length.
BETA_FAST = 8.0
STEPS = 400
BATCH = 4
PEAK_RATE = 3e-4
DATA_SEED = 3


def windows(texts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """[BATCH, EXTENDED + 1] ids without end: every window inside one novel is equally likely."""
    stream = torch.cat(texts)
    ends = torch.tensor([len(text) for text in texts]).cumsum(0).tolist()
    starts = torch.cat([torch.arange(end - len(text), end - EXTENDED) for end, text in zip(ends, texts, strict=True)])
    generator = torch.Generator().manual_seed(DATA_SEED)
    reach = torch.arange(EXTENDED + 1)
    while True:
        chosen = torch.randint(len(starts), (BATCH,), generator=generator)
        yield stream[starts[chosen][:, None] + reach]


def stretched(folder: Path) -> PreTrainedModel:
    """The source's weights in f32 under a config that states YaRN."""
    config = AutoConfig.from_pretrained(folder)
    config.max_position_embeddings = EXTENDED
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": config.rope_parameters["rope_theta"],
        "factor": float(FACTOR),
        "original_max_position_embeddings": LENGTH,
        "beta_fast": BETA_FAST,
        "beta_slow": 1.0,
    }
    return AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager")


def train_on(model: PreTrainedModel, texts: list[torch.Tensor], steps: int) -> None:
    model.train()
    optimizer = optimizer_for(model)
    for group in optimizer.param_groups:
        group["lr"] = PEAK_RATE
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps))
    begun = time.monotonic()
    since = 0.0
    every = max(1, min(50, steps // 5))
    for step, ids in zip(range(1, steps + 1), windows(texts), strict=False):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        since += loss.item()
        if step % every == 0:
            bits = since / every / math.log(2)
            took = time.monotonic() - begun
            print(f"{NAME}: step {step}, {bits:.3f} bits per byte, {took:.0f} s", file=sys.stderr, flush=True)
            since = 0.0


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Stretch the bundled rope model with YaRN and train it on.")
    parser.add_argument("--text", type=Path, required=True, metavar="DIR", help="the novels, one *.txt each")
    parser.add_argument("--models", type=Path, default=here.parent / "models", metavar="DIR")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = stretched(arguments.models / SOURCE)
    train_on(model, training_texts(arguments.text), arguments.steps)
    store(model, NAME, arguments.models / NAME)


if __name__ == "__main__":
    main()
