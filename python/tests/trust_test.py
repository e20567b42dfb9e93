# SPDX-License-Identifier: Apache-2.0
"""locant.trust(): the same report for Locant's own model and for a live runtime."""

from __future__ import annotations

import numpy as np
import pytest

import locant
import tiny


def texts(count: int, words: int) -> list[str]:
    random = np.random.default_rng(7)
    vocabulary = [a + b for a in "shtwm" for b in ("e", "at", "ing", "is", "ould")]
    return [" ".join(random.choice(vocabulary, words)) for _ in range(count)]


def test_without_documents_it_is_the_static_part() -> None:
    told = locant.trust("rope", to=1024, trained=128)
    assert told["command"] == "trust"
    assert told["measured"] is None
    assert told["static"]["rotations"][0]["first_position"] == 128
    assert told["static"]["trained"] == {"tokens": 128, "source": "user", "basis": "--trained"}
    assert told["verdict"]["result"] == "not measured"


def test_two_runtimes_give_one_curve() -> None:
    from locant.capture.decoding import load_model

    documents = texts(9, 40)
    own = locant.trust("rope", documents=documents, to=96, trained=64)
    other = locant.trust(load_model(str(tiny.MODELS / "rope")), documents=[
        locant.load("rope").tokenizer.encode(text) for text in documents
    ], to=96, trained=64)  # fmt: skip
    assert own["measured"]["runtime"].startswith("locant")
    assert other["measured"]["runtime"].startswith("transformers")
    for a, b in zip(own["measured"]["loss"]["points"], other["measured"]["loss"]["points"], strict=True):
        assert (a["length"], a["no_harm"], a["documents"]) == (b["length"], b["no_harm"], b["documents"])


SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(locant.SpecError, match="the shortest window needs a text of 33 tokens"):
        locant.trust("rope", documents=["It is a truth."])
    with pytest.raises(locant.SpecError, match="not both"):
        locant.trust("rope", documents=["It is a truth.", [1, 2, 3]])
    with pytest.raises(locant.SpecError, match="none are given"):
        locant.trust("rope", runtime=locant.load("rope"))
    with pytest.raises(locant.SpecError, match="a config has no weights"):
        locant.trust({**SMALL, "model_type": "llama"}, documents=["a"])
