# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of transcripts and compares what they print.

A transcript is a text file, or the ```console blocks of a markdown file:

    $ locant run --ids 1,x
    locant: run: --ids is whole numbers between commas, got 'x' at place 1
    exit 2

Both streams are compared as a terminal shows them. A line `...` stands for any lines, `<number>` for a number,
`<text>` for anything within a line; decimal fractions may differ by two units of the last digit. `exit N` ends a
command that does not exit 0; a command may go on in the next line
behind a backslash. $DATA is the folder of real checkpoints (LOCANT_DATA); without it, what names it is skipped.
$WORK is an empty folder for each file. Lines before the first command, and lines that begin with `#`, are prose.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 300
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
WILDCARDS = {"<number>": NUMBER, "<text>": r".*"}


@dataclass
class Step:
    """One command and what it should print."""

    place: str
    command: str
    expected: list[str] = field(default_factory=list)
    status: int = 0


def parse(lines: list[tuple[int, str]], name: str) -> list[Step]:
    steps: list[Step] = []
    open_command = False
    for number, line in lines:
        if open_command:
            steps[-1].command = steps[-1].command[:-1] + line.strip()
        elif line.startswith("$ "):
            steps.append(Step(f"{name}:{number}", line[2:]))
        elif steps and (found := re.fullmatch(r"exit (\d+)", line)):
            steps[-1].status = int(found[1])
        elif steps and not line.startswith("#"):
            steps[-1].expected.append(line)
        open_command = bool(steps) and not steps[-1].expected and steps[-1].command.endswith("\\")
    for step in steps:
        while step.expected and not step.expected[-1].strip():
            step.expected.pop()
    return steps


def steps_of(path: Path) -> list[Step]:
    numbered = list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    if path.suffix != ".md":
        return parse(numbered, path.name)
    steps: list[Step] = []
    block: list[tuple[int, str]] | None = None
    for number, line in numbered:
        if block is None:
            block = [] if line.strip() == "```console" else None
        elif line.strip() == "```":
            steps += parse(block, path.name)
            block = None
        else:
            block.append((number, line))
    return steps


def line_pattern(line: str) -> re.Pattern[str]:
    parts = re.split("(" + "|".join(map(re.escape, WILDCARDS)) + ")", line.rstrip())
    return re.compile("".join(WILDCARDS.get(part) or re.escape(part) for part in parts))


def same_but_for_last_digits(expected: str, got: str) -> bool:
    """Equal text, and decimal fractions within two units of their last digit: instruction sets round differently."""
    pattern = r"-?\d+\.\d+"
    wanted, found = re.findall(pattern, expected), re.findall(pattern, got)
    if re.sub(pattern, "#", expected) != re.sub(pattern, "#", got) or len(wanted) != len(found):
        return False
    return all(
        len(a.split(".")[1]) == len(b.split(".")[1])
        and abs(float(a) - float(b)) <= 2.01 * 10.0 ** -len(a.split(".")[1])
        for a, b in zip(wanted, found, strict=True)
    )


def line_matches(expected: str, got: str) -> bool:
    return bool(line_pattern(expected).fullmatch(got.rstrip())) or same_but_for_last_digits(
        expected.rstrip(), got.rstrip()
    )


def matches(expected: list[str], got: list[str]) -> bool:
    """`...` stands for any lines, none included."""
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(matches(expected[1:], got[skip:]) for skip in range(len(got) + 1))
    return bool(got) and line_matches(expected[0], got[0]) and matches(expected[1:], got[1:])


def run(step: Step, environment: dict[str, str]) -> str:
    """What went wrong, or ""."""
    done = subprocess.run(
        ["bash", "-c", step.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=environment,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    got = done.stdout.decode("utf-8", "replace").splitlines()
    while got and not got[-1].strip():
        got.pop()
    if done.returncode == step.status and matches(step.expected, got):
        return ""
    want = [*step.expected, f"exit {step.status}"]
    difference = difflib.unified_diff(want, [*got, f"exit {done.returncode}"], "expected", "got", lineterm="")
    return f"{step.place}: $ {step.command}\n" + "\n".join(difference)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs transcripts of the locant command.", allow_abbrev=False)
    parser.add_argument("binary", type=Path, help="the locant executable")
    parser.add_argument("files", type=Path, nargs="*", help="transcripts and markdown (tests/cli/transcripts/*.txt)")
    given = parser.parse_args()
    binary = given.binary.resolve()
    if not binary.is_file():
        parser.error(f"{binary} is no file")
    files = given.files or sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
    data = os.environ.get("LOCANT_DATA", "")
    passed, failed, skipped = 0, 0, 0
    for path in files:
        steps = steps_of(path)
        if not steps and path.suffix != ".md":
            parser.error(f"{path} has no command")
        with tempfile.TemporaryDirectory() as work:
            environment = {
                **os.environ,
                "PATH": f"{binary.parent}{os.pathsep}{os.environ.get('PATH', '')}",
                "DATA": data,
                "WORK": work,
                "NO_COLOR": "1",
                "LC_ALL": "C.UTF-8",
            }
            for step in steps:
                if "$DATA" in step.command and not data:
                    skipped += 1
                elif problem := run(step, environment):
                    failed += 1
                    print(problem, end="\n\n")
                else:
                    passed += 1
    if skipped:
        print(f"{skipped} commands skipped: no folder of real checkpoints (LOCANT_DATA)")
    print(f"{passed} commands passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
