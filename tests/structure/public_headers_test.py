# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, without warnings, under each compiler that is here."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tree import ROOT, files, place, write

COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only", "-x", "c++"]


def broken(root: Path, compiler: str) -> list[str]:
    headers = list(files(root, "include"))

    def compile_alone(header: Path) -> str:
        source = f'#include "{header.relative_to(root / "include").as_posix()}"\n'
        command = [compiler, *FLAGS, "-I", str(root / "include"), "-"]
        done = subprocess.run(command, input=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return f"{place(root, header)}: {done.stdout}" if done.returncode else ""

    with ThreadPoolExecutor(2) as workers:
        return [text for text in workers.map(compile_alone, headers) if text]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_header_compiles_alone(compiler: str) -> None:
    assert broken(ROOT, compiler) == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_seeded_header_that_leans_on_others_is_found(tmp_path: Path, compiler: str) -> None:
    write(tmp_path, "include/locant/a.h", "#pragma once\n#include <string>\nstd::string f();\n")
    write(tmp_path, "include/locant/b.h", "#pragma once\nstd::vector<int> g();\n")
    assert [text.split(": ")[0] for text in broken(tmp_path, compiler)] == ["include/locant/b.h"]
