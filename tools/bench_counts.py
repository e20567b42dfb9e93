"""Instructions of fixed kernels, counted by valgrind's callgrind on AVX2: the same on every run, so that a kernel that
got slower shows without a quiet machine. bench/counts.json holds what they were; more by its tolerance fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path("bench/counts.json")
TOLERANCE = 3  # percent; compilers of one major version move counts by less


@dataclass
class Found:
    text: str
    passed: int = 0
    failed: int = 0
    skipped: str = ""  # why nothing was counted


def count(program: Path, kernel: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=counted"]
        done = subprocess.run(
            [*command, str(program), kernel], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{kernel}: {done.stdout.strip().splitlines()[-1]}")
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)
        if found is None or found[1] == "0":
            raise RuntimeError(f"{kernel}: callgrind counted nothing")
        return int(found[1])


def counted(program: Path, kernels: list[str]) -> dict[str, int]:
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return dict(zip(kernels, workers.map(lambda kernel: count(program, kernel), kernels), strict=True))


def check(program: Path, file: Path, write: bool = False) -> Found:
    if shutil.which("valgrind") is None:
        return Found("", skipped="valgrind is not here")
    listed: dict[str, Any] = json.loads(
        subprocess.run([str(program), "--list"], stdout=subprocess.PIPE, check=True).stdout
    )
    if not listed["avx2"]:
        return Found("", skipped="instruction counts are of AVX2, which this CPU lacks")
    if write:
        counts = counted(program, listed["kernels"])
        head = {"tolerance_percent": TOLERANCE, "compiler": listed["compiler"], "target": "AVX2"}
        file.write_text(json.dumps({**head, "counts": counts}, indent=1) + "\n")
        return Found(f"{file}: {len(counts)} kernels written", passed=len(counts))
    wanted = json.loads(file.read_text())
    if wanted["compiler"] != listed["compiler"]:
        reason = f"instruction counts are of {wanted['compiler']}, this build is of {listed['compiler']}"
        return Found("", skipped=reason)
    return compared(wanted, counted(program, listed["kernels"]))


def compared(wanted: dict[str, Any], counts: dict[str, int]) -> Found:
    lines, failed = [], 0
    tolerance = wanted["tolerance_percent"]
    for kernel in sorted({*counts, *wanted["counts"]}):
        now, before = counts.get(kernel), wanted["counts"].get(kernel)
        if now is None or before is None:
            failed += 1
            where = "the program" if now is None else "bench/counts.json"
            lines.append(f"{kernel:<28} is not in {where} (./dev bench --counts --write)")
            continue
        percent = 100 * (now / before - 1)
        word = ""
        if percent > tolerance:
            failed, word = failed + 1, f"  more than {tolerance} % above"
        elif percent < -tolerance:
            word = "  fewer: ./dev bench --counts --write keeps it so"
        lines.append(f"{kernel:<28} {now:>12,} {before:>12,} {percent:>+7.2f} %{word}")
    lines.append(f"{len(counts) - failed} of {len(counts)} kernels within {tolerance} %")
    return Found("\n".join(lines), len(counts) - failed, failed)
