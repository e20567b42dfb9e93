"""Train the four bundled byte-level models, one per way to know positions, and store them.

    python training/train.py --text DIR [--out models] [--only NAME] [--steps N]

Same data in the same order, same budget and same seeds for all four; one thread, so that a rerun
adds up in the same order. The held-out novel is not read here: evaluate.py measures what is stored.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from byte_models import (
    BOS,
    CONFIGS,
    EOS,
    LENGTH,
    PAD,
    STORED_AS,
    make_tokenizer,
    training_texts,
)

STEPS = 3000
BATCH = 16
PEAK_RATE = 2e-3
WARMUP = 100
WEIGHT_DECAY = 0.1
CLIP = 1.0
WEIGHT_SEED = 1
DATA_SEED = 2


@dataclass(frozen=True)
class Batches:
    """[rows, length + 1] ids without end: every window inside one novel is equally likely."""

    rows: int = BATCH
    length: int = LENGTH
    seed: int = DATA_SEED

    def of(self, texts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        stream = torch.cat(texts)
        ends = torch.tensor([len(text) for text in texts]).cumsum(0).tolist()
        starts = torch.cat(
            [torch.arange(end - len(text), end - self.length) for end, text in zip(ends, texts, strict=True)]
        )
        # Its own generator: how many numbers a family draws for its weights must not move the data.
        generator = torch.Generator().manual_seed(self.seed)
        reach = torch.arange(self.length + 1)
        while True:
            chosen = torch.randint(len(starts), (self.rows,), generator=generator)
            yield stream[starts[chosen][:, None] + reach]


def rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine to zero; as a fraction of the peak rate."""
    warmup = min(WARMUP, steps // 10 + 1)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def optimizer_for(model: nn.Module, peak: float) -> torch.optim.AdamW:
    """Weight decay on matrices; not on norms and biases, which it would only pull towards zero."""
    parameters = list(model.parameters())
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=peak,
        betas=(0.9, 0.95),
    )


@dataclass(frozen=True)
class Course:
    """A training run: `every` is the most steps between two lines of progress."""

    name: str
    steps: int
    peak: float = PEAK_RATE
    batches: Batches = Batches()
    every: int = 100


def fit(model: PreTrainedModel, texts: list[torch.Tensor], course: Course) -> None:
    model.train()
    optimizer = optimizer_for(model, course.peak)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, course.steps))
    begun = time.monotonic()
    since = 0.0
    every = max(1, min(course.every, course.steps // 5))
    for step, ids in zip(range(1, course.steps + 1), course.batches.of(texts), strict=False):
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
            print(
                f"{course.name}: step {step}, {bits:.3f} bits per byte, {took:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            since = 0.0


def train(name: str, texts: list[torch.Tensor], steps: int) -> PreTrainedModel:
    torch.manual_seed(WEIGHT_SEED)
    # BLOOM and XGLM have the plain attention only; the others use it too, for the same arithmetic.
    model = AutoModelForCausalLM.from_config(CONFIGS[name](), attn_implementation="eager")
    print(f"{name}: {model.num_parameters():,} parameters, {steps} steps", file=sys.stderr, flush=True)
    fit(model, texts, Course(name, steps))
    return model


def store(model: PreTrainedModel, name: str, folder: Path) -> None:
    # Only the ids: what else would be written repeats the model's config.
    model.generation_config = GenerationConfig(bos_token_id=BOS, pad_token_id=PAD, eos_token_id=EOS)
    model.to(STORED_AS[name]).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written as 0600, unlike the files beside it
    make_tokenizer().save_pretrained(folder)
    # transformers 5 names a class that 4.x lacks; both load this name.
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(settings, indent=2) + "\n")


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Train the four bundled models and store them.")
    parser.add_argument("--text", type=Path, required=True, metavar="DIR", help="the novels, one *.txt each")
    parser.add_argument("--out", type=Path, default=here.parent / "models", metavar="DIR")
    parser.add_argument("--only", choices=list(CONFIGS), help="one model instead of all four")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    texts = training_texts(arguments.text)
    for name in [arguments.only] if arguments.only else CONFIGS:
        store(train(name, texts, arguments.steps), name, arguments.out / name)


if __name__ == "__main__":
    main()
