"""`./dev bench`: the table, its JSON, and what is made of them. Each mode is one command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import bench_compare
import bench_counts
import dev_peers
import dev_python
import growth
import speed_tables
from dev_system import Stop, run

HELP = """\
usage: ./dev bench [FLAGS]                 the table; FLAGS as bench_locant lists them below
       ./dev bench --compare OLD [FLAGS]   the same, then each row against OLD, a JSON of this machine; exit status 1
                                           where a row got slower by more than 10 % and both spreads
       ./dev bench --compare OLD --with NEW    two files, nothing is run
       ./dev bench --counts [--write]      instructions of fixed kernels (valgrind) against bench/counts.json
       ./dev bench --growth                costs against length and batch: bench/results/growth.json, docs/images
       ./dev bench --install-peers         what it compares with, into .venv and .venv-peers (2 GB, minutes)
       ./dev bench --publish [FLAGS]       everything that docs/speed.md shows, on a quiet machine: the table for this
                                           CPU and for AVX2 alone with one and two threads into bench/results, --growth,
                                           then the page. Ctrl-C keeps every row that was measured; --publish --resume
                                           goes on with the others, --publish --only WHAT measures some rows anew
"""
RESULTS = Path("bench/results")
INTERRUPTED = 130


def value_of(flag: str, arguments: list[str]) -> str | None:
    """Takes a flag and its value out of the arguments."""
    if flag not in arguments:
        return None
    at = arguments.index(flag)
    if at + 1 == len(arguments):
        raise Stop(f"bench: {flag} needs a file")
    value = arguments[at + 1]
    del arguments[at : at + 2]
    return value


def main(arguments: list[str], root: Path, build: Callable[..., Path]) -> int:
    arguments = list(arguments)
    if arguments == ["--help"]:
        print(HELP)
        return table(arguments, build)
    if arguments == ["--install-peers"]:
        dev_python.ensure(root)
        return 1 if dev_peers.ensure(root, (*dev_peers.PEERS, *dev_peers.BENCH_PEERS)) else 0
    if arguments[:1] == ["--counts"]:
        return counts(arguments[1:], root, build)
    if arguments == ["--growth"]:
        return growth.main(root, build("release", "bench_growth") / "bench" / "bench_growth")
    if arguments[:1] == ["--publish"]:
        return publish(arguments[1:], root, build)
    old, new = value_of("--compare", arguments), value_of("--with", arguments)
    if old is None:
        return table(arguments, build)
    if new is not None:
        return bench_compare.main(Path(old), Path(new))
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "new.json"
        bench_compare.load(Path(old))  # complains before minutes are spent
        table([*arguments, "--output", str(found)], build)
        return bench_compare.main(Path(old), found)


def table(arguments: list[str], build: Callable[..., Path]) -> int:
    program = build("release", "bench_locant", "bench_libm_peer") / "bench" / "bench_locant"
    return subprocess.run([str(program), *arguments]).returncode


def counts(arguments: list[str], root: Path, build: Callable[..., Path]) -> int:
    if arguments not in ([], ["--write"]):
        raise Stop(f"bench --counts: {' '.join(arguments)} is not known here")
    program = build("release", "bench_counts") / "bench" / "bench_counts"
    found = bench_counts.check(program, root / bench_counts.FILE, write=arguments == ["--write"])
    print(found.text)
    return 1 if found.failed else 0


def publish(arguments: list[str], root: Path, build: Callable[..., Path]) -> int:
    for flag in ("--target", "--threads", "--save"):
        if flag in arguments:
            raise Stop(f"bench --publish: it sets {flag} itself")
    status = 0
    try:
        for target in ([], ["--target", "AVX2"]):
            found = table([*target, "--threads", "1,2", "--save", str(root / RESULTS), *arguments], build)
            if found < 0:  # a signal ended it
                raise KeyboardInterrupt
            status |= found
        if "--only" not in arguments:
            status |= growth.main(root, build("release", "bench_growth") / "bench" / "bench_growth")
    except KeyboardInterrupt:
        print("\nbench: stopped; the rows measured so far are kept, --publish --resume goes on", file=sys.stderr)
        status = INTERRUPTED
    speed_tables.write(root)
    run([sys.executable, str(root / "tools" / "speed_tables.py"), "--check"], quiet=True)
    return status
