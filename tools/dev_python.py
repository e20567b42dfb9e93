"""The virtual environment of the Python tests and tools: .venv, made from tools/requirements.txt."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from dev_system import Stop, run

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
IS_CPU_BUILD = """
import importlib.metadata as m, sys, torch
gpu = sorted(n for n in {d.metadata["Name"].lower() for d in m.distributions()} if n.startswith("nvidia-"))
if torch.version.cuda or gpu:
    sys.exit(f"torch {torch.__version__} is built for CUDA {torch.version.cuda}, packages {gpu}")
"""


def python(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def module_options(root: Path) -> tuple[str, ...]:
    """For CMake: the Python module is built where .venv has what it needs."""
    if not any((root / ".venv").glob("lib/python*/site-packages/nanobind")):
        return ("-DLOCANT_BUILD_PYTHON=OFF",)
    return ("-DLOCANT_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={python(root)}")


def ensure(root: Path) -> None:
    """Makes or completes .venv; does nothing when the requirements are those of the last time."""
    requirements = root / "tools" / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = root / ".venv" / "requirements.sha256"
    if python(root).exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    print("dev: installing the Python packages of tools/requirements.txt into .venv", file=sys.stderr)
    if not python(root).exists():
        run([sys.executable, "-m", "venv", str(root / ".venv")])
    install_torch(python(root), torch_pin(root))
    pip(python(root), "-r", str(requirements))
    checked = subprocess.run([python(root), "-c", IS_CPU_BUILD], stderr=subprocess.PIPE, text=True)
    if checked.returncode != 0:
        raise Stop(f"the tests need a CPU-only PyTorch: {checked.stderr.strip()}")
    stamp.write_text(wanted)


def torch_pin(root: Path) -> str:
    lines = (root / "tools" / "requirements.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def install_torch(executable: Path, pin: str) -> None:
    """The CPU-only build. Linux names it "+cpu"; PyPI's own Linux build would bring gigabytes of CUDA."""
    if sys.platform != "linux":
        pip(executable, pin)
        return
    quiet = [str(executable), "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{pin}+cpu"]
    if subprocess.run(quiet, stderr=subprocess.DEVNULL).returncode != 0:
        pip(executable, f"{pin}+cpu", "--extra-index-url", CPU_INDEX)


def pip(executable: Path, *arguments: str) -> None:
    run([str(executable), "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments], quiet=True)
