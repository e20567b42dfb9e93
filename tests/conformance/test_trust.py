# SPDX-License-Identifier: Apache-2.0
"""`locant trust` on checkpoints whose trained length is known: the bundled ones, stories260K, SmolLM2."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import Locant

LENGTH_KEY = {"rope": "max_position_embeddings", "sinusoidal": "max_position_embeddings", "learned": "n_positions",
              "alibi": "seq_length", "rope-yarn": "max_position_embeddings"}  # fmt: skip
MINUTE = 60.0
MOST_CPU_S = 2 * 3 * MINUTE  # three minutes on two cores
BUDGET = os.environ.get("LOCANT_TRUST_BUDGET", "20m")  # wall time: a loaded machine must not change the answer


@dataclass
class Trusted:
    """One finished `locant trust --json`."""

    status: int
    report: dict[str, Any]
    cpu_s: float
    wall_s: float

    @property
    def loss(self) -> dict[str, Any]:
        loss: dict[str, Any] = self.report["measured"]["loss"]
        return loss

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.report["static"]
        return facts

    @property
    def scaling(self) -> dict[str, Any]:
        scaling: dict[str, Any] = self.report["measured"]["scaling"]
        return scaling

    def scaled_at(self, length: int) -> dict[str, Any]:
        point: dict[str, Any] = next(p for p in self.scaling["points"] if p["length"] == length)
        return point


def trust(locant: Locant, model: Path, *flags: str) -> Trusted:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run(
        [str(locant.binary), "trust", str(model), "--json", *flags], capture_output=True, timeout=3600, check=False
    )
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1), done.stderr.decode()
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Trusted(done.returncode, json.loads(done.stdout), cpu, wall)


@pytest.fixture(scope="session")
def northanger(data: Path) -> str:
    """The novel that no bundled model was trained on."""
    return str(data / "austen-novels" / "northanger-abbey.txt")


def declaring(bundled: Path, name: str, length: int, folder: Path) -> Path:
    """A copy of a bundled model whose config declares another length."""
    model = folder / f"{name}-{length}"
    shutil.copytree(bundled / name, model)
    path = model / "config.json"
    config = json.loads(path.read_text())
    assert LENGTH_KEY[name] in config
    config[LENGTH_KEY[name]] = length
    path.write_text(json.dumps(config))
    return model


KNOWN = [
    pytest.param("rope", 128, 192, id="rope"),
    pytest.param("sinusoidal", 128, 192, id="sinusoidal", marks=pytest.mark.full),
    pytest.param("alibi", 1024, 1024, id="alibi", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("name", "least", "most"), KNOWN)
def test_known_lengths(
    locant: Locant, bundled: Path, northanger: str, tmp_path: Path, name: str, least: int, most: int
) -> None:
    found = trust(locant, declaring(bundled, name, 1024, tmp_path), "--text-file", northanger, "--budget", BUDGET)
    assert found.facts["declared"]["tokens"] == 1024
    assert found.loss["control"]["result"] == "holds"
    assert least <= found.loss["no_harm"] <= most
    assert found.cpu_s <= MOST_CPU_S
    worse = most < 1024
    assert found.status == int(worse)
    assert found.report["verdict"]["result"] == ("worse than declared" if worse else "holds")
    assert found.report["measured"]["retrieval"]["length"] is None  # these models do not copy
    if name == "alibi":
        assert found.loss["first_harm"] is None
        assert found.loss["benefit"] <= 192


def test_a_table_that_is_shorter_than_declared(locant: Locant, bundled: Path, northanger: str, tmp_path: Path) -> None:
    model = declaring(bundled, "learned", 1024, tmp_path)
    facts = trust(locant, model)
    assert facts.status == 0
    assert "table-shorter-than-declared" in [finding["name"] for finding in facts.facts["findings"]]
    assert facts.facts["trained"] == {"tokens": 128, "source": "weights", "basis": facts.facts["tables"][0]["tensor"]}
    assert facts.facts["table_end"] == 128
    assert facts.report["verdict"]["result"] == "not measured"
    found = trust(locant, model, "--text-file", northanger, "--budget", BUDGET)
    assert found.loss["no_harm"] == 128
    assert found.report["verdict"]["trusted"] == 128
    assert found.status == 1
    assert found.cpu_s <= MOST_CPU_S


@pytest.mark.full
def test_a_model_trained_on_with_yarn(locant: Locant, bundled: Path, northanger: str) -> None:
    model = bundled / "rope-yarn"
    assert sum(file.stat().st_size for file in model.iterdir()) <= 2_000_000
    found = trust(locant, model, "--text-file", northanger, "--to", "1024", "--budget", BUDGET)
    assert found.facts["trained"]["source"] == "field"  # the original length of the schedule, weak as it is
    assert 512 <= found.loss["no_harm"] <= 640
    assert found.loss["first_harm"] is not None
    assert found.status == 0
    assert found.report["verdict"]["result"] == "holds"


@pytest.mark.full
@pytest.mark.parametrize("name", ["rope", "sinusoidal"])
def test_five_seeds(locant: Locant, bundled: Path, northanger: str, tmp_path: Path, name: str) -> None:
    model = declaring(bundled, name, 1024, tmp_path)
    runs = [
        trust(locant, model, "--text-file", northanger, "--to", "512", "--seed", str(seed), "--budget", BUDGET)
        for seed in range(1, 6)
    ]
    grid = [point["length"] for point in runs[0].loss["points"]]
    steps = [grid.index(run.loss["no_harm"]) for run in runs]
    assert max(steps) - min(steps) <= 1
    assert {run.report["verdict"]["result"] for run in runs} == {"worse than declared"}


@pytest.mark.full
def test_schedules_in_sign_and_order(locant: Locant, bundled: Path, northanger: str) -> None:
    """Without training on: linear is worst everywhere, NTK-aware better; YaRN is best from four times on."""

    def extended(method: str, factor: int, *more: str) -> Trusted:
        return trust(
            locant, bundled / "rope", "--extend", method, "--factor", str(factor), "--to", str(128 * factor),
            "--text-file", northanger, "--budget", BUDGET, *more,
        )  # fmt: skip

    at: dict[tuple[str, int], float] = {}
    raw: dict[int, float] = {}
    for factor in (2, 4, 8):
        runs = {
            "linear": extended("linear", factor),
            "ntk": extended("ntk", factor),
            "yarn": extended("yarn", factor, "--beta-fast", "8"),
        }
        for method, run in runs.items():
            assert run.scaling["takes_effect"]
            at[method, factor] = run.scaled_at(128 * factor)["scaled"]
        raw[factor] = runs["linear"].scaled_at(128 * factor)["loss"]
        assert at["linear", factor] == max(at["linear", factor], at["ntk", factor], at["yarn", factor], raw[factor])
        assert at["ntk", factor] < raw[factor]
        assert at["yarn", factor] < raw[factor]
        if factor == 8:
            linear, ntk, yarn = runs["linear"], runs["ntk"], runs["yarn"]
            assert linear.scaling["short_lengths"] == "fails"
            assert any(p["harmful"] for p in linear.scaling["points"] if p["length"] <= 128)
            assert "harmful" in linear.scaling["text"]
            assert linear.status == 1
            costs = [run.scaled_at(128)["difference"]["mean"] for run in (linear, yarn, ntk)]
            assert costs[0] > max(costs[1:]) > 0
            # linear has every angle in range and is worst, NTK-aware has not and is good: range is not use
            assert linear.facts["rotations"][0]["unseen"] == 0
            assert ntk.facts["rotations"][0]["unseen"] > 0.2
    assert at["yarn", 4] < at["ntk", 4]
    assert at["yarn", 8] < at["ntk", 8]


@pytest.mark.full
def test_stories_trained_on_512(locant: Locant, data: Path, northanger: str, tmp_path: Path) -> None:
    model = tmp_path / "stories"
    shutil.copytree(data / "stories260k" / "hf", model)
    path = model / "config.json"
    path.chmod(0o644)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 2048}))
    found = trust(locant, model, "--text-file", northanger, "--budget", BUDGET)
    assert found.loss["control"]["result"] == "holds"
    assert 512 <= found.loss["no_harm"] <= 768
    assert found.status == 1


@pytest.mark.full
def test_smollm2_keeps_five_minutes(locant: Locant, smollm2: Path, data: Path, tmp_path: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(
        smollm2.parent, gguf_file=smollm2.name, local_files_only=True
    )
    text = (data / "austen-novels" / "northanger-abbey.txt").read_text()
    ids = tmp_path / "ids.npy"
    np.save(ids, np.array(tokenizer(text)["input_ids"], dtype=np.int64))
    found = trust(locant, smollm2, "--ids-file", str(ids), "--budget", "5m")
    assert found.wall_s <= 5.5 * MINUTE
    assert found.facts["rotations"][0]["pairs"]
    assert found.report["plan"]["budget_s"] == 300
    measured = [p for p in found.loss["points"] if p["documents"] > 0]
    assert len(measured) >= 2
    for point in found.loss["points"]:
        assert (point["documents"] == 0) == (point["no_harm"] == "not measured")


def test_rows_that_never_learned(locant: Locant, bundled: Path, tmp_path: Path) -> None:
    """A table of 512 rows of which training saw 128: the rest as it was drawn."""
    from safetensors.torch import load_file, save_file

    model = declaring(bundled, "learned", 512, tmp_path)
    tensors = load_file(model / "model.safetensors")
    name = next(key for key in tensors if "wpe" in key)
    drawn = torch.randn(384, tensors[name].shape[1], generator=torch.Generator().manual_seed(3)) * 0.02
    tensors[name] = torch.cat([tensors[name], drawn.to(tensors[name].dtype)])
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    found = trust(locant, model)
    assert found.facts["trained"]["tokens"] == 128
    assert found.facts["trained"]["source"] == "weights"
    assert found.facts["tables"][0]["rows"] == 512
    assert "rows-never-learned" in [finding["name"] for finding in found.facts["findings"]]


def test_whole_tables_are_left_alone(locant: Locant, bundled: Path) -> None:
    found = trust(locant, bundled / "learned")
    assert all(table["evidence"] is None for table in found.facts["tables"])
    assert found.facts["trained"]["source"] != "weights"


def test_a_released_table_that_learned_33_of_512_rows(locant: Locant, data: Path) -> None:
    """The others have the norm of GPT-2's initialisation, 0.02 sqrt(width)."""
    found = trust(locant, data / "capp-gpt2")
    config = json.loads((data / "capp-gpt2" / "config.json").read_text())
    (table,) = found.facts["tables"]
    assert (table["rows"], table["learned"]) == (512, 33)
    drawn = config["initializer_range"] * config["n_embd"] ** 0.5
    assert f"{table['norm_behind']:.2f}" == f"{drawn:.2f}"


def test_static_part_takes_less_than_a_second(locant: Locant, bundled: Path) -> None:
    for name in ("rope", "alibi", "learned", "sinusoidal", "rope-yarn"):
        assert trust(locant, bundled / name).cpu_s < 1
    assert trust(locant, bundled / "rope", "--to", "1048576").cpu_s < 1.5


def test_published_configs_have_a_static_part(locant: Locant, data: Path) -> None:
    for config in sorted((data / "hf-configs").glob("*.json")):
        facts = trust(locant, config).facts
        assert facts["to"]["tokens"] >= 2, config.name
        for rotation in facts["rotations"]:
            assert rotation["cosine_sum"]["searched_to"] == min(facts["to"]["tokens"], 1 << 20)
            assert len(rotation["pairs"]) * 2 >= rotation["critical_dimension"]


REFUSED = [
    (("--to", "16"), "at least two lengths"),
    (("--budget", "0"), "--budget is a time above 0"),
    (("--budget", "fast"), "--budget is a time above 0"),
    (("--budget", "1ms"), "--budget is a time above 0"),
    (("--budget", "0.01s"), "is too small for one measurement"),
    (("--factor", "2"), "belong to --extend"),
    (("--extend", "linear"), "needs a --factor"),
    (("--extend", "linear", "--factor", "0.5"), "from 1 to"),
    (("--extend", "none"), "no schedule to take away"),
    (("--extend", "lineal", "--factor", "2"), "linear"),
    (("--trained", "1"), "--trained"),
]


@pytest.mark.parametrize(("flags", "sentence"), REFUSED, ids=[" ".join(flags) for flags, _ in REFUSED])
def test_bad_flags(locant: Locant, bundled: Path, northanger: str, flags: tuple[str, ...], sentence: str) -> None:
    refused(locant, bundled / "rope", sentence, "--text-file", northanger, *flags)


def refused(locant: Locant, model: Path, sentence: str, *flags: str) -> None:
    done = locant.raw("trust", str(model), *flags)
    assert done.status == 2, done.stdout
    assert done.stderr.startswith("locant: ")
    assert len(done.stderr.splitlines()) == 1
    assert sentence in done.stderr


def test_bad_texts(locant: Locant, bundled: Path, northanger: str, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("It is a truth.")
    refused(locant, bundled / "rope", "the shortest window needs a text of 33 tokens", "--text-file", str(short))
    same = []
    for i in range(9):
        same.append(tmp_path / f"same-{i}.txt")
        same[-1].write_text("The same words every time, and not one other word beside them. " * 4)
    flags = [word for file in same for word in ("--text-file", str(file))]
    refused(locant, bundled / "rope", "all 9 are the same", *flags)
    refused(locant, bundled / "learned", "the position table ends at 128", "--text-file", northanger, "--to", "256")
    assert trust(locant, bundled / "learned", "--to", "256").status == 0  # the static part still says
    refused(locant, bundled / "rope" / "config.json", "a config alone", "--text-file", northanger)
