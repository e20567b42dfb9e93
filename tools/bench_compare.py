"""Two JSON files of `./dev bench`: each row's time new over old, as it is and normalised by the machine's limit of the
same run. A row got slower when both ratios exceed 1.1 and both spreads (median over best of either run)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dev_system import Stop

SLOWER = 1.10
Row = dict[str, Any]
Key = tuple[str, str, str, int]


def load(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        raise Stop(f"bench --compare: {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Stop(f"bench --compare: {path} is no JSON: {error}") from error
    if found.get("command") != "bench" or "rows" not in found or "machine" not in found:
        raise Stop(f"bench --compare: {path} is no file of ./dev bench --output")
    return found


def same_machine(old: dict[str, Any], new: dict[str, Any]) -> None:
    for field, word in (("cpu", "CPU"), ("target", "target")):
        a, b = old["machine"].get(field), new["machine"].get(field)
        if a != b:
            raise Stop(f"bench --compare: times of one {word} say nothing of another: old is {a}, new is {b}")


def timed(found: dict[str, Any]) -> dict[Key, Row]:
    rows = (row for row in found["rows"] if row["ns"])
    return {(row["operation"], row["shape"], row["dtype"], row["threads"]): row for row in rows}


def ratios(old: Row, new: Row) -> tuple[float, float, float]:
    """Raw, normalised by the limits (raw where there is none), and the larger spread of the two runs."""
    raw = new["ns"] / old["ns"]
    limits = (old["limit_ns"], new["limit_ns"])
    normalised = raw * limits[0] / limits[1] if all(limits) else raw
    return raw, normalised, max(row["median_ns"] / row["ns"] for row in (old, new))


def is_slower(old: Row, new: Row) -> bool:
    raw, normalised, spread = ratios(old, new)
    return min(raw, normalised) > max(SLOWER, spread)


def main(old_path: Path, new_path: Path) -> int:
    old, new = load(old_path), load(new_path)
    same_machine(old, new)
    before, after = timed(old), timed(new)
    shared = [key for key in before if key in after]
    if not shared:
        raise Stop(f"bench --compare: {old_path} and {new_path} share no row")
    print(f"{'operation':<17} {'shape':<46} {'':<11} {'thr':>3} {'new/old':>8} {'of limit':>8} {'spread':>7}")
    slower = 0
    for key in shared:
        raw, normalised, spread = ratios(before[key], after[key])
        bad = is_slower(before[key], after[key])
        slower += bad
        operation, shape, dtype, threads = key
        numbers = f"{raw:>8.3f} {normalised:>8.3f} {spread - 1:>6.0%}"
        print(f"{operation:<17} {shape:<46} {dtype:<11} {threads:>3} {numbers}{'  slower' if bad else ''}")
    gone = len(before) - len(shared)
    print(f"{len(shared)} rows, {slower} slower" + (f"; {gone} of the old file are not in the new one" if gone else ""))
    return 1 if slower else 0
