# SPDX-License-Identifier: Apache-2.0
"""The command from Python: the same command line, with what Python brings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import locant
import tiny
from locant import _locant, console, host
from locant.host import RecordJob

PACKAGE = str(Path(locant.__file__).parents[1])
ENV = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}


def command(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "locant", *args], cwd=cwd, env=ENV, capture_output=True, text=True, check=False
    )


def test_it_is_the_commands_own_answer() -> None:
    binary = Path(os.environ.get("LOCANT_BIN", tiny.ROOT / "build" / "locant"))
    for args in (["list", "mechanisms"], ["inspect", "rope", "--json"], ["explain", "yarn"], ["check", "alibi"]):
        ours = command(*args)
        assert (ours.returncode, ours.stderr) == (0, "")
        if binary.is_file():
            theirs = subprocess.run([binary, *args], capture_output=True, text=True, check=True)
            assert ours.stdout.replace(PACKAGE + "/locant", str(binary.parent)) == theirs.stdout


def test_exit_codes_and_one_line() -> None:
    for args, said in ((["chek"], "did you mean check"), (["run", "nope", "--ids", "1"], "no bundled model")):
        done = command(*args)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("locant: ")
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


def test_bundled_models_run(tmp_path: Path) -> None:
    done = command("run", "rope", "--ids", "76,108,105", "--logits", "l.npy", "--quiet", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["ids"] == [76, 108, 105]
    assert np.array_equal(np.load(tmp_path / "l.npy"), locant.load("rope").logits([76, 108, 105]))


def test_streams_go_where_sys_stdout_goes(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    assert console.main(["--version"]) == 0
    print("after", flush=True)
    assert capfd.readouterr().out == f"before\nlocant {locant.__version__}\nafter\n"


def test_a_stdout_that_is_no_file_gets_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["--version"]) == 0
    assert console.main(["chek"]) == 2
    out, err = capsys.readouterr()
    assert out == f"locant {locant.__version__}\n"
    assert "did you mean" in err


def test_signals_are_as_before() -> None:
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE)]
    console.main(["--version"])
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE)] == handlers


def test_ctrl_c_ends_the_command() -> None:
    """With what was generated till then."""
    args = ["run", "rope", "--text", "It", "--continue", "100000"]
    running = subprocess.Popen(
        [sys.executable, "-m", "locant", *args], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    while (line := running.stdout.readline()) and line != b"continuation\n":  # before that it ends at once
        pass
    assert running.poll() is None, running.communicate()
    running.send_signal(signal.SIGINT)
    _, notes = running.communicate(timeout=30)
    assert running.returncode == 0, notes
    assert b"interrupted" in notes.lower()


def test_a_closed_pipe_is_no_error() -> None:
    shown = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m locant list rules | head -1"],
        env=ENV, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.stdout == "rules\n"
    assert shown.stderr == ""


def test_tokenizers_of_other_kinds_are_read(tmp_path: Path) -> None:
    """A vocabulary with merges: Locant's own reader says no, the package reads it."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(tiny.MODELS / "rope" / name)
    inner = Tokenizer(models.BPE({"a": 5, "b": 6, "ab": 7, "<unk>": 0}, [("a", "b")], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    native, why_not = _locant.open_tokenizer(str(tmp_path))
    assert native is None
    assert why_not
    tokenizer = locant.load(tmp_path).tokenizer
    assert (tokenizer.kind, tokenizer.encode("ab a")) == ("tokenizers", [7, 5])
    assert tokenizer.piece(7) == "ab"
    assert tokenizer.piece(999) == "<id 999>"
    done = command("run", str(tmp_path), "--text", "ab a", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["pieces"] == ["ab", "a"]
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {}, "merges": 3}}')
    done = command("run", str(tmp_path), "--text", "ab", "--quiet")
    assert done.returncode == 2
    assert "tokenizer.json" in done.stderr


def test_recording_of_transformers(tmp_path: Path) -> None:
    target = str(tmp_path / "hf.safetensors")
    host.record(
        runtime="hf",
        model=str(tiny.MODELS / "rope"),
        dump="",
        output=target,
        ids=[[*range(5, 29)], [8]],
        steps=2,
        pad="left",
    )
    trace = locant.TraceReader(target)
    assert trace.steps == 3
    assert trace["attention_mask"].tolist() == [[1] * 24, [0] * 23 + [1]]
    assert trace.metadata("locant.producer").startswith("transformers ")
    assert locant.check("rope", trace=target).errors == []


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(locant.SpecError, match=r"torch is not installed here; `pip install 'locant\[transformers\]'`"):
        host.adapter("hf")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(locant.SpecError, match=r"`pip install 'locant\[onnx\]'`"):
        host.adapter("onnx")
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(locant.SpecError, match=r"`pip install 'locant\[llama-cpp\]'`"):
        host.adapter("llama.cpp")
    with pytest.raises(locant.SpecError, match="there is locant, hf, onnx, llama"):
        host.adapter("mlx")
    with pytest.raises(locant.SpecError, match="locant and hf can be driven live"):
        host.open_runtime("onnx", "x")


def test_jobs_go_to_their_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[RecordJob] = []
    for name in ("onnx", "onnxruntime", "llama_cpp"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    for name in ("onnx", "llama_cpp", "dumps"):
        module = type(sys)(f"locant.capture.{name}")
        module.record = jobs.append  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for runtime, dump in (("onnx", ""), ("llama.cpp", ""), ("hf", "folder")):
        host.record(runtime=runtime, model="m", dump=dump, output="o", ids=[(1, 2)], steps=3, pad="right")
    assert [job.runtime for job in jobs] == ["onnx", "llama.cpp", "hf"]
    assert jobs[2].dump == "folder"
    assert jobs[0].ids == [[1, 2]]


def test_exceptions_of_other_libraries_are_one_line() -> None:
    assert host.sentence(RuntimeError("a\nb  c")) == "RuntimeError: a b c"
    assert host.sentence(locant.SpecError("who: rule")) == "who: rule"
    assert host.sentence(KeyError()) == "KeyError"


def test_live_check_of_transformers() -> None:
    done = command("check", "rope", "--live", "--runtime", "hf", "--json")
    assert done.returncode == 0, done.stderr or done.stdout
    assert json.loads(done.stdout)["findings"] == []


def test_a_model_that_transformers_cannot_load_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny.MODELS / "rope" / "config.json").read_text())
    done = command("check", str(tmp_path), "--live", "--runtime", "hf")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("locant: ")
