"""Measure the stored models on the held-out novel and write the numbers into their card.

    python training/evaluate.py --text DIR [--models models]

Prints bits per byte by position: on windows of the trained length, and past it on windows of four
times that. If the models' folder has a README.md, what stands between its markers is replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from byte_models import LENGTH, STORED_AS, VOCAB, held_out_text

LONG = 4 * LENGTH
INSIDE = ((0, 16), (16, 32), (32, 64), (64, 128))
BEYOND = ((128, 256), (256, 512))
BATCH_BYTES = 2048
PROMPT = "It is a truth universally acknowledged"


@dataclass(frozen=True)
class Measured:
    name: str
    model: PreTrainedModel
    dtype: str
    weights: int
    inside: torch.Tensor  # bits at each of LENGTH positions, the mean over windows
    beyond: torch.Tensor | None  # the same for LONG positions; none where the class cannot
    continuation: str


def load(folder: Path) -> tuple[PreTrainedModel, str]:
    """The model in float32 and the dtype it is stored in; each weight is from the file."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        raise SystemExit(f"{folder}: not loaded as stored: {wrong}")
    stored = type(model.config).from_pretrained(folder).dtype
    return model.eval(), str(stored).removeprefix("torch.")


@torch.inference_mode()
def bits_by_position(model: PreTrainedModel, text: torch.Tensor, length: int) -> torch.Tensor:
    """At position p the model has read p + 1 bytes of its window and predicts the next one."""
    count = (len(text) - 1) // length
    reach = torch.arange(length + 1)
    total = torch.zeros(length, dtype=torch.float64)
    batch = BATCH_BYTES // length
    for first in range(0, count, batch):
        starts = torch.arange(first, min(first + batch, count)) * length
        ids = text[starts[:, None] + reach]
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        total += loss.double().sum(0)
    return total / count / math.log(2)


@torch.inference_mode()
def greedy(model: PreTrainedModel, folder: Path) -> str:
    """What follows PROMPT up to the trained length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt")
    room = LENGTH - ids["input_ids"].shape[1]
    out = model.generate(**ids, do_sample=False, max_new_tokens=room)
    return tokenizer.decode(out[0])


def measure(name: str, folder: Path, text: torch.Tensor) -> Measured:
    print(f"{name}: measuring", file=sys.stderr, flush=True)
    model, dtype = load(folder)
    inside = bits_by_position(model, text, LENGTH)
    # GPT-2's table has LENGTH rows; the other three classes take any length.
    beyond = None if name == "learned" else bits_by_position(model, text, LONG)
    return Measured(name, model, dtype, model.num_parameters(), inside, beyond, greedy(model, folder))


def number(bits: torch.Tensor) -> str:
    return f"{bits.mean().item():.3f}"


def span(bucket: tuple[int, int]) -> str:
    return f"{bucket[0]}-{bucket[1] - 1}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bits_table(measured: list[Measured]) -> str:
    rows = []
    for m in measured:
        inside = [number(m.inside[a:b]) for a, b in INSIDE]
        beyond = ["table ends" if m.beyond is None else number(m.beyond[a:b]) for a, b in BEYOND]
        rows.append([f"`{m.name}`", *inside, f"**{number(m.inside)}**", *beyond])
    return table(["model", *map(span, INSIDE), f"all {LENGTH}", *map(span, BEYOND)], rows)


def size_table(measured: list[Measured], models: Path) -> str:
    rows = [
        [
            f"`{m.name}`",
            type(m.model).__name__,
            f"{m.weights:,}",
            m.dtype,
            f"{sum(f.stat().st_size for f in (models / m.name).iterdir()):,}",
        ]
        for m in measured
    ]
    return table(["model", "class", "parameters", "stored as", "bytes"], rows)


def continuations(measured: list[Measured]) -> str:
    return "\n\n".join(f"`{m.name}`:\n\n```text\n{m.continuation}\n```" for m in measured)


def checksums(measured: list[Measured], models: Path) -> str:
    files = [path for m in measured for path in sorted((models / m.name).iterdir())]
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.relative_to(models)}" for f in files]
    return "\n".join(["```text", *lines, "```"])


def replace(card: str, marker: str, content: str) -> str:
    begin, end = f"<!-- {marker}: written by training/evaluate.py -->", f"<!-- end of {marker} -->"
    if card.count(begin) != 1 or card.count(end) != 1:
        raise SystemExit(f"the card has no single pair of markers for {marker}")
    before, rest = card.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Measure the bundled models on the held-out novel.")
    parser.add_argument("--text", type=Path, required=True, metavar="DIR", help="the novels, one *.txt each")
    parser.add_argument("--models", type=Path, default=here.parent / "models", metavar="DIR")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    text = held_out_text(arguments.text)
    measured = [measure(name, arguments.models / name, text) for name in STORED_AS]
    parts = {
        "sizes": size_table(measured, arguments.models),
        "bits per byte": bits_table(measured),
        "continuations": continuations(measured),
        "checksums": checksums(measured, arguments.models),
    }
    for name in ("sizes", "bits per byte", "continuations"):
        print(f"{parts[name]}\n")
    print(f"a uniform guess: {math.log2(VOCAB):.3f} bits per byte")

    path = arguments.models / "README.md"
    if path.is_file():
        card = path.read_text()
        for marker, content in parts.items():
            card = replace(card, marker, content)
        path.write_text(card)
        print(f"{path}: written", file=sys.stderr)


if __name__ == "__main__":
    main()
