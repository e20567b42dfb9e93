"""What ./dev needs from the system: which packages are missing, and installing them where that is possible.

Everything is found by looking at files, so that nothing is called when all is there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class Stop(Exception):
    """A sentence for the user; exit status 2."""


@dataclass(frozen=True)
class Need:
    """One package in the words of three package managers ("" = has none), and whether it is there."""

    apt: str
    dnf: str
    brew: str
    there: Callable[[], bool]


INCLUDE = [Path(p) for p in ("/usr/include", "/usr/local/include", "/opt/homebrew/include")]
INCLUDE += [Path(p) for p in os.environ.get("CPATH", "").split(":") if p]


def header(name: str) -> Callable[[], bool]:
    return lambda: any((folder / name).exists() for folder in INCLUDE)


def program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


def clang_runtime() -> bool:
    return any(Path("/usr/lib/llvm-14/lib/clang").glob("14*/lib/linux/libclang_rt.fuzzer-*.a"))


NEEDS: dict[str, list[Need]] = {
    "build": [
        Need("g++", "gcc-c++", "", program("g++", "clang++")),
        Need("cmake", "cmake", "cmake", program("cmake")),
        Need("ninja-build", "ninja-build", "ninja", program("ninja")),
        Need("libhwy-dev", "highway-devel", "highway", header("hwy/highway.h")),
        Need("nlohmann-json3-dev", "json-devel", "nlohmann-json", header("nlohmann/json.hpp")),
        Need("libcli11-dev", "cli11-devel", "cli11", header("CLI/CLI.hpp")),
        Need("libfmt-dev", "fmt-devel", "fmt", header("fmt/core.h")),
        Need("libsentencepiece-dev", "sentencepiece-devel", "sentencepiece", header("sentencepiece_processor.h")),
        Need("libgtest-dev", "gtest-devel", "googletest", header("gtest/gtest.h")),
        Need("libgmock-dev", "gmock-devel", "googletest", header("gmock/gmock.h")),
    ],
    # clang 14 and this valgrind are Debian's; elsewhere the parts of `./dev test` that need it say that it is not there
    "test": [
        Need("python3-venv", "python3", "python", module("ensurepip")),
        Need("pkg-config", "pkgconf", "pkgconf", program("pkg-config")),
        Need("clang-14", "", "", program("clang++-14")),
        Need("clang-format-14", "", "", program("clang-format-14")),
        Need("clang-tidy-14", "", "", program("clang-tidy-14")),
        Need("libclang-rt-14-dev", "", "", clang_runtime),
        Need("valgrind", "", "", program("valgrind")),
    ],
    "fuzz": [
        Need("clang-14", "", "", program("clang++-14")),
        Need("libclang-rt-14-dev", "", "", clang_runtime),
    ],
}


def run(command: Sequence[str], quiet: bool = False, env: dict[str, str] | None = None) -> None:
    """Runs a command; quiet shows its output only when it fails, on stderr."""
    if not quiet:
        subprocess.run(command, check=True, env=env)
        return
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise subprocess.CalledProcessError(done.returncode, command)


def missing(groups: Sequence[str]) -> list[Need]:
    needs = {need.apt: need for group in groups for need in NEEDS[group]}
    return [need for need in needs.values() if not need.there()]


def advice(needs: Sequence[Need]) -> str:
    """The lines that install the needs, one per package manager."""
    debian = "sudo apt-get install -y " + " ".join(need.apt for need in needs)
    fedora = " ".join(dict.fromkeys(need.dnf for need in needs if need.dnf))
    macos = " ".join(dict.fromkeys(need.brew for need in needs if need.brew))
    lines = [f"Debian, Ubuntu: {debian}", f"Fedora: sudo dnf install -y {fedora}", f"macOS: brew install {macos}"]
    return "\n".join("  " + line for line in lines if not line.endswith(("install ", "-y ")))


def require(*groups: str) -> None:
    """Makes sure that the packages of the groups are there; Stop with the lines that install them otherwise."""
    needs = missing(groups)
    debian = shutil.which("apt-get") is not None
    if not debian:
        needs = [need for need in needs if need.dnf or need.brew or groups == ("build", "fuzz")]
    if not needs:
        return
    names = " ".join(need.apt for need in needs)
    if not debian or os.geteuid() != 0:
        raise Stop(f"missing: {names}\n{advice(needs)}")
    print(f"dev: installing {names}", file=sys.stderr)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], quiet=True, env=env)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *names.split()], quiet=True, env=env)
    still = [need.apt for need in needs if not need.there()]
    if still:
        raise Stop(f"installed, and still not found: {' '.join(still)}")
