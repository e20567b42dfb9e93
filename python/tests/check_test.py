# SPDX-License-Identifier: Apache-2.0
"""check(): evidence of every kind in, a report in every form out."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import locant
import tiny
from locant import _locant
from locant.capture.decoding import record_rows
from locant.capture.transformers import Recorder


def twice(model: Any) -> Recorder:
    """Passes of a model whose rotation is applied twice."""
    import sys

    module = sys.modules[type(model).__module__]
    original = module.apply_rotary_pos_emb

    def applied(q: torch.Tensor, k: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return original(*original(q, k, *args, **kwargs), *args, **kwargs)

    with mock.patch.object(module, "apply_rotary_pos_emb", applied):
        return record_rows(model, [tiny.ids(1, 24)[0].tolist()], steps=1)


@pytest.fixture(scope="module")
def faulty() -> locant.Report:
    model = tiny.model("llama")
    return locant.check(model, trace=twice(model))


def test_a_clean_model_gives_nothing() -> None:
    model = tiny.model("llama")
    recorded = record_rows(model, [tiny.ids(1, 24)[0].tolist(), [9, 8, 7]], steps=2, pad="left")
    report = locant.check(model, trace=recorded)
    assert report.findings == []
    assert report
    assert report.ok
    assert "R103" in report.passed


def test_a_fault_is_named(faulty: locant.Report) -> None:
    assert not faulty
    assert [finding.rule for finding in faulty.errors] == ["R103"]
    (finding,) = faulty.errors
    assert (finding.name, finding.severity) == ("rotated-twice", "error")
    assert finding.where.layer == 0
    assert finding.hypotheses[0].residual >= 0
    assert finding.next
    assert "R103" not in faulty.passed
    with pytest.raises(AssertionError):
        assert faulty


def test_every_rule_is_in_one_place(faulty: locant.Report) -> None:
    told = [finding.rule for finding in faulty.findings]
    told += [one.finding.rule for one in faulty.explained] + faulty.passed + [one.rule for one in faulty.skipped]
    assert sorted(set(told)) == sorted(rule.id for rule in locant.rules())


def test_the_forms_agree(faulty: locant.Report, tmp_path: Path) -> None:
    told = faulty.to_dict()
    assert [finding["rule"] for finding in told["findings"]] == [finding.rule for finding in faulty.findings]
    assert told["command"] == "check"
    sarif = json.loads(faulty.to_sarif())
    assert sarif["version"] == "2.1.0"
    assert sarif["runs"][0]["results"][0]["ruleId"] == "R103"
    failed = ElementTree.fromstring(faulty.to_junit()).findall(".//failure")
    assert len(failed) == 1
    assert str(faulty).startswith("R103 rotated-twice error: ")
    assert "1 error, 0 warnings" in str(faulty)
    assert faulty.worst("note") == faulty.findings or len(faulty.worst("note")) == len(faulty.findings)
    with pytest.raises(locant.SpecError, match="note, warning or error"):
        faulty.worst("fatal")


def test_the_text_is_the_commands() -> None:
    _, printed, _ = _locant.command_text(["check", "rope", "--color", "never"])
    assert str(locant.check("rope")) == printed.rstrip("\n")


def test_html_is_escaped_and_stands_alone(faulty: locant.Report) -> None:
    page = faulty._repr_html_()
    assert "R103" in page
    assert "prefers-color-scheme:dark" in page
    assert "http" not in page
    assert "<script" not in page
    config = json.loads((tiny.MODELS / "rope" / "config.json").read_text())
    odd = locant.check({**config, "<b>key</b>": 1, "rope_scaling": {"rope_type": "<i>odd</i>", "factor": 2.0}})
    assert "<i>odd" not in odd._repr_html_()
    assert "<b>key" not in odd._repr_html_()
    ElementTree.fromstring(f"<div>{odd._repr_html_()}</div>")


def test_traces_of_every_kind(faulty: locant.Report, tmp_path: Path) -> None:
    model = tiny.model("llama")
    recorded = twice(model)
    path = tmp_path / "run.safetensors"
    recorded.save(path)
    for trace in (path, str(path), [path], recorded, [recorded]):
        report = locant.check(model, trace=trace)
        assert [finding.rule for finding in report.errors] == ["R103"]
    alone = locant.check(trace=path)
    assert "C101" in [one.rule for one in alone.skipped]
    with pytest.raises(locant.SpecError, match="check: a trace is a path, a recorder or a list of them, got int"):
        locant.check(model, trace=3)


def test_select_ignore_and_baseline(faulty: locant.Report, tmp_path: Path) -> None:
    model = tiny.model("llama")
    recorded = twice(model)
    assert locant.check(model, trace=recorded, select="T").findings == []
    assert locant.check(model, trace=recorded, ignore=["R"]).ok
    known = tmp_path / "known.json"
    known.write_text(faulty.to_baseline())
    report = locant.check(model, trace=recorded, baseline=known)
    assert report
    assert [finding.rule for finding in report.known] == [finding.rule for finding in faulty.findings]
    assert report.gone == []
    assert len(locant.check("rope", baseline=known).gone) == len(faulty.findings)


def test_arguments_that_do_not_go_together() -> None:
    with pytest.raises(locant.SpecError, match="give a model, a trace or both"):
        locant.check()
    with pytest.raises(locant.SpecError, match="against and runtime need a model"):
        locant.check(trace="x.safetensors", runtime="locant")
    with pytest.raises(locant.SpecError, match='runtime is "locant", "hf" or a locant'):
        locant.check("rope", runtime="vllm")
    with pytest.raises(locant.SpecError, match="hash is headers or whole"):
        locant.check("rope", hash="some")
    with pytest.raises(locant.FileError):
        locant.check("rope", trace="no-such-file.safetensors")


def test_evidence_is_named() -> None:
    (files,) = {one.kind for one in locant.check("rope").evidence}
    assert files == "files"
    whole = locant.check("rope", hash="whole").evidence
    assert all(len(one.sha256) == 64 for one in whole)
