# SPDX-License-Identifier: Apache-2.0
"""Specs, plans, tables, mechanisms, recipes, the facts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import locant
import tiny
from budgets import budget
from locant.plans import Positions


def test_a_spec_reads_paths_names_dicts_and_transformers_objects() -> None:
    from_name = locant.Spec.from_config("rope")
    from_path = locant.Spec.from_config(tiny.MODELS / "rope")
    told = json.loads((tiny.MODELS / "rope" / "config.json").read_text())
    from_dict = locant.Spec.from_config(told)
    for spec in (from_path, from_dict):
        assert (spec.family, spec.layers, spec.heads) == (from_name.family, from_name.layers, from_name.heads)
        assert locant.plan(spec) == locant.plan(from_name)
    model = tiny.model("llama")
    for given in (model, model.config):
        spec = locant.read_spec(given)
        assert (spec.family, spec.layers, spec.kv_heads, spec.head_dim) == ("llama", 2, 2, 12)
    assert [position.mechanism for position in spec.layer_positions[0]] == ["rope"]
    assert spec.layer_positions[0][0].parameters["theta"] == 50000.0
    assert "rope_theta" in spec.layer_positions[0][0].keys["theta"]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(locant.FileError, match="no such path, and no bundled model"):
        locant.read_spec("no/such/model")
    with pytest.raises(locant.SpecError, match="a path, a bundled model's name, a config or a transformers model, got"):
        locant.read_spec(3)
    with pytest.raises(locant.SpecError, match="hidden_size"):
        locant.read_spec({"model_type": "llama", "vocab_size": 10, "hidden_size": "wide"})
    with pytest.raises(locant.SpecError, match="no_such_family"):
        locant.read_spec({"model_type": "no_such_family", "vocab_size": 8}, strict=True)


def test_frequencies_are_those_of_the_formula() -> None:
    theta, width = 50000.0, 12
    rotation = locant.plan(tiny.model("llama"), recipe="exact").layer(1).rotation
    assert rotation is not None
    want = np.array([theta ** (-2 * pair / width) for pair in range(width // 2)])
    assert rotation.inv_freq.dtype == np.float64
    assert np.abs(rotation.inv_freq / want - 1).max() <= budget("frequency_exact")
    assert (rotation.rotary_dim, rotation.head_dim, rotation.pairing, rotation.amplitude) == (12, 12, "half", 1.0)
    assert rotation.acts_on == ["q", "k"]


@pytest.mark.parametrize("positions", [5, [0, 1, 257, 2049, 2**24 - 1], np.arange(3) + 100])
def test_tables_are_cos_and_sin(positions: Positions) -> None:
    plan = locant.plan(tiny.model("llama"), recipe="exact")
    rotation = plan.layer(0).rotation
    assert rotation is not None
    cos, sin = locant.tables(plan, positions)
    at = np.arange(positions) if isinstance(positions, int) else np.asarray(positions)
    for t, position in enumerate(at):
        for pair, frequency in enumerate(rotation.inv_freq):
            angle = float(position) * float(frequency)
            assert abs(float(cos[t, pair]) - math.cos(angle)) <= budget("table_exact")
            assert abs(float(sin[t, pair]) - math.sin(angle)) <= budget("table_exact")
    again, _ = locant.tables(rotation, positions)
    assert np.array_equal(cos, again)


def test_a_plan_knows_its_recipe_and_a_length_can_change_it() -> None:
    spec = locant.PositionSpec("dynamic_ntk", {"head_dim": 64, "theta": 10000.0, "factor": 2.0, "max_positions": 128})
    near, far = spec.plan("hf", seen=64), spec.plan("hf", seen=4096)
    assert isinstance(near, locant.Rotation)
    assert isinstance(far, locant.Rotation)
    assert near != far
    assert far.inv_freq[-1] < near.inv_freq[-1]
    assert locant.plan("rope").recipe == "hf"
    assert locant.plan("rope", "llama.cpp").recipe == "llama.cpp"
    with pytest.raises(locant.SpecError, match='did you mean "hf"'):
        locant.plan("rope", "hg")
    with pytest.raises(IndexError, match="plan: layer 4 is outside 4 layers"):
        locant.plan("rope").layer(4)
    with pytest.raises(locant.SpecError, match='no stack "encoder"'):
        locant.plan("rope", stack="encoder")


def test_other_sites() -> None:
    bias = locant.plan("alibi").layer(0).bias
    assert bias is not None
    assert bias.form == "slopes"
    slopes = locant.alibi_slopes(bias.heads)
    assert np.array_equal(bias.slopes, slopes)
    assert slopes[0] == 2 ** (-8 / bias.heads)
    (embedding,) = locant.plan("sinusoidal").embedding
    rows = locant.tables(locant.plan("sinusoidal"), 7)
    assert rows.shape == (7, embedding.width)
    with pytest.raises(locant.SpecError, match="tables: layer 0 rotates nothing"):
        locant.tables(locant.plan("alibi"), 3)
    with pytest.raises(locant.SpecError, match="tables: a Plan, a Rotation or a PositionEmbedding, got str"):
        locant.tables("rope", 3)  # type: ignore[arg-type]


def test_a_bias_of_slopes_is_slope_times_distance() -> None:
    bias = locant.plan("alibi", "exact").layer(0).bias
    assert bias is not None
    queries, keys = [3, 300], [0, 3, 299, 300]
    scores = locant.bias_scores(bias, queries, keys)
    assert bias.counts_from == "sequence_start"  # BLOOM's code; equal to distances after the softmax
    want = bias.slopes[:, None, None] * (np.array(keys)[None, None] - 0 * np.array(queries)[None, :, None])
    assert scores.shape == (bias.heads, 2, 4)
    assert (np.abs(scores - want) <= budget("table_exact") * np.abs(want)).all()


def test_buckets() -> None:
    assert [locant.t5_bucket(r, bidirectional=False) for r in (0, -1, -15, -16, -1000, 4)] == [0, 1, 15, 16, 31, 0]
    assert locant.deberta_bucket(3) == 3
    assert locant.deberta_bucket(-400) == -locant.deberta_bucket(400)
    with pytest.raises(locant.SpecError):
        locant.t5_bucket(1, buckets=1)


def test_lists_and_pages() -> None:
    assert {"rope", "alibi", "learned", "sinusoidal", "yarn"} <= {one.name for one in locant.mechanisms()}
    assert {"exact", "hf", "llama.cpp"} <= {one.name for one in locant.recipes()}
    assert locant.rules()[0].summary.endswith(".")
    assert "paper" not in locant.mechanisms()[0].summary
    assert "rotated-twice" in locant.explain("R103")
    assert locant.mechanisms()[0].formula.splitlines()[0] in locant.explain("rope")
    with pytest.raises(locant.SpecError, match="did you mean rope"):
        locant.explain("rop")


def test_inspect_is_the_commands_object() -> None:
    from locant import _locant

    told = locant.inspect("rope", distance=200)
    _, printed, _ = _locant.command_text(["inspect", "rope", "--distance", "200", "--json"])
    assert told == json.loads(printed)
    assert locant.inspect(tiny.model("gpt2"))["limits"]["hard"] == 64
