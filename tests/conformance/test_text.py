# SPDX-License-Identifier: Apache-2.0
"""Text in, text out, and the numbers of the JSON answer: pieces, log-probabilities, candidates, loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from budgets import assert_within, budget
from command import Locant
from models import ModelShop, random_ids
from reference import Reference

DOCUMENTED = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."


def log_softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def test_stories260k_tells_its_story(locant: Locant, reference: Reference, data: Path) -> None:
    model = data / "stories260k" / "hf"
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    result = locant.run(model, "--text", "Once upon a time", "--continue", "60")
    row = result.rows[0]
    ids = tokenizer.encode("Once upon a time").ids
    assert row["ids"] == ids
    want = reference.greedy(model, ids, 60)
    assert want.gap > 2 * budget("conformance_family")
    assert row["continuation"]["ids"] == want.ids
    whole = tokenizer.decode(ids + want.ids)
    assert whole.startswith(DOCUMENTED)
    assert "Once upon a time" + row["continuation"]["text"] == whole


def test_text_output_holds_the_story(locant: Locant, data: Path) -> None:
    done = locant.raw(
        "run", str(data / "stories260k" / "hf"), "--text", "Once upon a time", "--continue", "30", "--quiet"
    )
    assert done.status == 0, done.stderr
    assert ", there was a little girl named" in done.stdout.decode()
    assert done.stderr == ""


def test_several_texts_are_rows(locant: Locant, data: Path) -> None:
    model = data / "stories260k" / "hf"
    texts = ["Once upon a time", "Lily", "The dog and the cat went to the park"]
    flags = [part for text in texts for part in ("--text", text)]
    batch = locant.run(model, *flags, "--continue", "20")
    assert len(batch.rows) == 3
    for index, text in enumerate(texts):
        alone = locant.run(model, "--text", text, "--continue", "20")
        assert alone.rows[0]["ids"] == batch.rows[index]["ids"]
        assert alone.rows[0]["continuation"] == batch.rows[index]["continuation"]


def test_text_from_stdin_and_file(locant: Locant, data: Path, tmp_path: Path) -> None:
    model, text = data / "stories260k" / "hf", "Once upon a time, Lily went home."
    file = tmp_path / "prompt.txt"
    file.write_text(text)
    want = Tokenizer.from_file(str(model / "tokenizer.json")).encode(text).ids
    for result in (
        locant.run(model, "--text-file", str(file)),
        locant.run(model, "--text-file", "-", stdin=text.encode()),
    ):
        assert [row["ids"] for row in result.rows] == [want]


def test_bundled_tokenizer_is_bytes(locant: Locant, bundled: Path) -> None:
    text = "Emma \u2013 «1816»\n\té"
    row = locant.run(bundled / "rope", "--text", text).rows[0]
    assert row["ids"] == [4 + byte for byte in text.encode()]
    assert len(row["pieces"]) == len(row["ids"])


def test_bundled_model_writes_text(locant: Locant, reference: Reference, bundled: Path) -> None:
    text = "It is a truth universally acknowledged, that "
    row = locant.run(bundled / "rope", "--text", text, "--continue", "40").rows[0]
    want = reference.greedy(bundled / "rope", [4 + byte for byte in text.encode()], 40).ids
    assert row["continuation"]["ids"] == want
    assert row["continuation"]["text"].encode() == bytes(token - 4 for token in want)


def test_log_probabilities_and_candidates(locant: Locant, reference: Reference, data: Path) -> None:
    """logprobs[t] is that of token t given those before it: null for the first."""
    model = data / "stories260k" / "hf"
    ids = np.load(data / "stories260k" / "golden-ids.npy").tolist()[:50]
    row = locant.run(model, "--top", "7", ids=ids).rows[0]
    logits = reference.logits(model, ids)
    logprobs = log_softmax(logits)
    assert len(row["logprobs"]) == len(ids)
    assert row["logprobs"][0] is None
    given = np.array(row["logprobs"][1:])
    want = logprobs[np.arange(len(ids) - 1), ids[1:]]
    assert_within(given, want, "conformance_family", "log-probabilities")
    best = np.argsort(-logits[-1], kind="stable")[:7]
    assert [candidate["id"] for candidate in row["next"]] == best.tolist()
    logit = np.array([candidate["logit"] for candidate in row["next"]])
    prob = np.array([candidate["prob"] for candidate in row["next"]])
    assert_within(logit, logits[-1, best], "conformance_family", "candidates' logits")
    assert_within(prob, np.exp(logprobs[-1, best]), "conformance_family", "candidates' probabilities")


def test_five_candidates_by_default(locant: Locant, shop: ModelShop) -> None:
    assert len(locant.run(shop.get("llama"), ids=[5, 6]).rows[0]["next"]) == 5


def test_loss_is_the_mean_of_the_log_probabilities(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    model, rows = shop.get("gpt2"), [random_ids(150, seed=91), random_ids(31, seed=92)]
    result = locant.run(model, "--loss", ids=rows)
    for index, ids in enumerate(rows):
        want = -log_softmax(reference.logits(model, ids))[np.arange(len(ids) - 1), ids[1:]].mean()
        loss = result.rows[index]["loss"]
        loss = loss["mean"] if isinstance(loss, dict) else loss
        assert_within(np.array([loss]), np.array([want]), "conformance_family", f"loss of row {index}")


def test_ids_without_a_tokenizer(locant: Locant, shop: ModelShop) -> None:
    """The random models have none: ids run, text is refused in a sentence."""
    model = shop.get("llama")
    assert locant.run(model, "--continue", "3", ids=[5, 6, 7]).continuation()
    refused = locant.attempt(model, "--text", "hello")
    assert refused.status == 2
    assert refused.stderr.startswith("locant: ")
    assert "tokenizer" in refused.stderr


def test_timing(locant: Locant, shop: ModelShop) -> None:
    timing = locant.run(shop.get("llama"), "--continue", "8", ids=[random_ids(30, 1), random_ids(10, 2)]).json["timing"]
    assert timing["prompt_tokens"] == 40
    assert timing["generated_tokens"] == 16
    for key in ("load_s", "prompt_tokens_per_s", "generated_tokens_per_s", "peak_bytes"):
        assert timing[key] > 0, key


def test_answer_goes_to_a_file(locant: Locant, shop: ModelShop, tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    result = locant.attempt(shop.get("llama"), "-o", str(target), ids=[5, 6, 7])
    assert result.status == 0, result.stderr
    assert result.stdout == b""
    assert json.loads(target.read_text())["rows"][0]["ids"] == [5, 6, 7]
    assert [file.name for file in tmp_path.iterdir()] == ["answer.json"]
