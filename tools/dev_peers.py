"""The virtual environment of the peers, the runtimes that recipes imitate: .venv-peers, each peer pinned."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import dev_python
from dev_system import run

SHARED = ("numpy==2.4.6", "gguf==0.19.0", "transformers==5.24.0", "sentencepiece==0.2.3", "pytest==9.2.0")


@dataclass(frozen=True)
class Peer:
    """`alone` is installed without what it asks for: a tokenizer, a server or a GPU build that no test needs."""

    name: str  # of tests/cases/generate_peer_<name>.py
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


PEERS = (
    Peer("mlx", ("mlx==0.32.4", "mlx-cpu==0.32.4"), ("mlx-lm==0.32.2",), ("mlx.core", "mlx_lm.models.rope_utils")),
    Peer(
        "onnxruntime",
        ("onnx==1.23.2", "onnx-ir==1.1.0", "onnxruntime==1.32.0"),
        ("onnxruntime-genai==0.18.0",),
        ("onnxruntime", "onnxruntime_genai.models.builders.base"),
    ),
    Peer("ctranslate2", ("ctranslate2==4.8.5",), modules=("ctranslate2",)),
    Peer("llama_cpp", ("diskcache==5.6.3",), ("llama-cpp-python==0.3.36",), ("llama_cpp",)),
)
# of ./dev bench alone; transformers reads GGUF files with accelerate
BENCH_PEERS = (
    Peer("openvino", ("openvino==2026.4.1",), modules=("openvino",)),
    Peer("accelerate", ("accelerate==1.15.0",), modules=("accelerate",)),
)


def folder(root: Path) -> Path:
    return root / ".venv-peers"


def python(root: Path) -> Path:
    return folder(root) / "bin" / "python"


def ensure(root: Path, peers: tuple[Peer, ...] = PEERS) -> dict[str, str]:
    """Makes or completes .venv-peers. Peer -> why it is not there, in one line; those that are there are left out."""
    pin = dev_python.torch_pin(root)
    if not python(root).exists():
        print("dev: making .venv-peers: gigabytes, and minutes to compile llama.cpp", file=sys.stderr)
        run([sys.executable, "-m", "venv", str(folder(root))])
    if not _stamped(root, "shared", (pin, *SHARED)):
        dev_python.install_torch(python(root), pin)
        dev_python.pip(python(root), *SHARED)
        _stamp(root, "shared", (pin, *SHARED))
    missing = {}
    for peer in peers:
        wanted = (*peer.packages, *peer.alone)
        if _stamped(root, peer.name, wanted):
            continue
        reason = _install(root, peer)
        if reason:
            missing[peer.name] = reason
            print(f"dev: {peer.name} is left out: {reason}", file=sys.stderr)
        else:
            _stamp(root, peer.name, wanted)
    return missing


def _install(root: Path, peer: Peer) -> str:
    """Nothing, or why it failed."""
    for arguments in (peer.packages, ("--no-deps", *peer.alone) if peer.alone else ()):
        if not arguments:
            continue
        command = [str(python(root)), "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return f"pip: {_last_line(done.stdout)}"
    code = "; ".join(f"import {module}" for module in peer.modules)
    done = subprocess.run([str(python(root)), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else f"import: {_last_line(done.stdout)}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or ["no word of it"])[-1]


def _stamp_file(root: Path, name: str) -> Path:
    return folder(root) / f"{name}.stamp"


def _stamped(root: Path, name: str, wanted: tuple[str, ...]) -> bool:
    stamp = _stamp_file(root, name)
    return stamp.exists() and stamp.read_text().split() == list(wanted)


def _stamp(root: Path, name: str, wanted: tuple[str, ...]) -> None:
    _stamp_file(root, name).write_text("\n".join(wanted) + "\n")
