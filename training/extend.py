"""Stretch the bundled `rope` to four times its length with YaRN, train it on, and store it as `rope-yarn`.

    python training/extend.py --text DIR [--models models] [--steps N]

Same data as train.py in longer windows, one thread, its own seed: a rerun adds up in the same order. The held-out
novel is not read here.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from byte_models import LENGTH, training_texts
from train import Batches, Course, fit, store

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
    course = Course(NAME, arguments.steps, peak=PEAK_RATE, batches=Batches(BATCH, EXTENDED, DATA_SEED), every=50)
    fit(model, training_texts(arguments.text), course)
    store(model, NAME, arguments.models / NAME)


if __name__ == "__main__":
    main()
