#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs Locant, static and shared, moves the installed tree, and builds and runs a user's project against it
through find_package, pkg-config and add_subdirectory. Prints `ok NAME` or `FAILED NAME` for each step.

usage: run.py [FOLDER]     works in FOLDER (kept) or in a temporary one (removed)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONSUMER = ROOT / "tests" / "install" / "consumer"
MODEL = ROOT / "models" / "rope"
MOVED = "moved"  # where the installed tree stands in the end
EXPECTED = {"slope": "0.500000", "inv_freq": "0.010000", "embedded": "2.500000"}


class Failed(Exception):
    """A step that did not do what it should; the text says what."""


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})},
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def check_numbers(program: Path, env: dict[str, str] | None = None) -> None:
    said = dict(line.split(" ", 1) for line in run(program, MODEL, env=env).splitlines())
    config = json.loads((MODEL / "config.json").read_text())
    version = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())
    heads = config.get("num_attention_heads", config.get("n_head"))
    expected = {**EXPECTED, "version": version[1] if version else "", "heads": str(heads), "tokenizer": "byte-level"}
    wrong = {name: said.get(name) for name, value in expected.items() if said.get(name) != value}
    if wrong:
        raise Failed(f"{program.name} printed {wrong}, expected {expected}")


def configure(source: Path, folder: Path, *options: str) -> None:
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *launcher, *options)


def install(work: Path, shared: str) -> None:
    """Builds and installs, then moves the tree: what is installed must not know where it was."""
    folder, first = work / "build", work / "first"
    configure(ROOT, folder, f"-DBUILD_SHARED_LIBS={shared}", "-DLOCANT_BUILD_TESTS=OFF")
    run("cmake", "--build", folder)
    run("cmake", "--install", folder, "--prefix", first)
    first.rename(work / MOVED)


def check_exported_paths(prefix: Path) -> None:
    """Neither folders of this build nor places of system libraries are written into the package."""
    files = [*prefix.rglob("*.cmake"), *prefix.rglob("*.pc")]
    if not any(path.name == "locantTargets.cmake" for path in files):
        raise Failed(f"{prefix} holds no locantTargets.cmake")
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if str(ROOT) in line or str(prefix.parent) in line or re.search(r"/usr/(lib|include)/\S", line):
                raise Failed(f"{path.name}:{number} holds an absolute path: {line.strip()}")


def check_package(work: Path) -> None:
    configure(CONSUMER, work / "package", "-DLOCANT_AS=package", f"-DCMAKE_PREFIX_PATH={work / MOVED}")
    run("cmake", "--build", work / "package")
    check_numbers(work / "package" / "consumer")


def check_wrong_version(work: Path) -> None:
    """A consumer that asks for a later version must not get this one."""
    source = work / "later"
    shutil.copytree(CONSUMER, source)
    lists = source / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("find_package(locant 0.1", "find_package(locant 99"))
    try:
        configure(source, work / "later-build", "-DLOCANT_AS=package", f"-DCMAKE_PREFIX_PATH={work / MOVED}")
    except Failed:
        return
    raise Failed("find_package(locant 99) was content with this version")


def check_pkg_config(work: Path) -> None:
    libraries = next(path.parent for path in (work / MOVED).rglob("liblocant.*"))
    env = {"PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "locant", env=env).split()
    program = work / "by-pkg-config"
    run(os.environ.get("CXX", "g++"), CONSUMER / "main.cc", "-o", program, *flags, "-pthread")
    check_numbers(program, env={"LD_LIBRARY_PATH": str(libraries)})


def check_subdirectory(work: Path) -> None:
    configure(CONSUMER, work / "subdirectory", "-DLOCANT_AS=subdirectory", f"-DLOCANT_SOURCE={ROOT}")
    run("cmake", "--build", work / "subdirectory")
    check_numbers(work / "subdirectory" / "consumer")


def check_command(prefix: Path) -> None:
    """The installed command runs, and finds the bundled models of its own tree."""
    told = json.loads(run(prefix / "bin" / "locant", "run", "--ids", "1,2,3", "--json"))
    if told["tool"] != "locant" or not told["rows"]:
        raise Failed(f"the installed command said {told}")


def main() -> int:
    kept = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    work = kept or Path(tempfile.mkdtemp(prefix="locant-install-"))
    steps: dict[str, Callable[[], None]] = {}
    for name, shared in (("static", "OFF"), ("shared", "ON")):
        folder = work / name
        steps[f"{name}: install"] = partial(install, folder, shared)
        steps[f"{name}: no paths of this machine"] = partial(check_exported_paths, folder / MOVED)
        steps[f"{name}: find_package"] = partial(check_package, folder)
        steps[f"{name}: pkg-config"] = partial(check_pkg_config, folder)
        steps[f"{name}: the installed command"] = partial(check_command, folder / MOVED)
    steps["a later version is refused"] = partial(check_wrong_version, work / "static")
    steps["add_subdirectory"] = partial(check_subdirectory, work)
    failures = 0
    try:
        for name, step in steps.items():
            try:
                step()
                print(f"ok {name}", flush=True)
            except (Failed, OSError, KeyError, ValueError) as error:
                failures += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
    finally:
        if kept is None:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
