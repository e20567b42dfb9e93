#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/speed.md from the runs in bench/results: a table for every CPU and target, and what costs grow with.

usage: speed_tables.py            writes the page
       speed_tables.py --check    says whether it would change
`./dev bench --publish` measures all of it anew.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import growth

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs/speed.md")
RESULTS = Path("bench/results")
Row = dict[str, Any]
Run = dict[str, Any]
Key = tuple[int, str, str, str]

HEAD = """# Speed

Written by `tools/speed_tables.py` from the runs in `bench/results`; `./dev bench --publish` on a quiet machine measures
all of it anew and writes this page.

## How it is measured

`./dev bench` prints a table of your machine in about ten minutes for each thread count, with `--quick` a rough one in
three or four (`--threads 1,2`, `--target AVX2`, `--only rotation` or `--only 4,5` for some rows, and `--help`).
Each row's answer is first compared with the f64 reference, of large answers a sample; a wrong one is not timed. Then
Locant, every peer found and the machine's limit take turns in short slices of one run, so that all of them see the same
neighbours and the same clock: twelve slices where calls are short, fewer where they are long, never less than three.
Peers that are four times behind the fastest and whose call takes more than 20 ms get three, one whose call takes more
than 2 s gets one.

- **Time** is the best call of the run: CPU time of the thread with one thread, wall time with two. Medians are in the
  JSON.
- **Peers** are found when it runs, in `.venv` and `.venv-peers` (`./dev bench --install-peers` makes both), and never
  linked: PyTorch and transformers, ONNX Runtime, OpenVINO, ggml and llama.cpp, OpenBLAS, the C library. Each is a
  program in `bench/peers` that is stopped while others are timed. They get the call that is best for them (heads folded
  into rows for one token, weights packed), the same inputs in [-1, 1), memory on huge pages, and outputs that exist
  where the interface takes one. A peer's own answer is held to f64 too (of whole models: to transformers in f32): its
  error, over the largest value, stands beside its time where it is above 0.1 %.
- **The limit** is what the machine does in the same seconds: multiply-adds or dot products from registers, or reading,
  copying or writing (plain or with non-temporal stores, the better of both) or updating memory of the size of the row's
  data.
- **Goals** are times the best peer, and percent of the limit. A row that misses its goal says so.
- Under a forced target peers are held to it by their own switches; those that have none are marked *wider*, and are no
  measure where arithmetic is the limit: where nobody else does the row, its ratio is shown and no goal is judged.
- AMX, where a CPU has it, runs in two speeds: judge such rows by their ratio.

`./dev bench --save FOLDER` writes its JSON after every row, and rows measured again take the place of those that are
there: a run that was cut goes on with `--resume`, and a table is completed in pieces. Each row has its date, the load
of the machine, the flags that its numbers depend on, and the seconds that its parts took.

`./dev bench --output FILE` keeps a run as JSON; `./dev bench --compare FILE` runs again and names the rows that got
slower by more than 10 % and more than either run's spread, both as they are and normalised by the limits. Times never
fail a build: `./dev test` compares instruction counts of fixed kernels instead (`./dev bench --counts`, valgrind).
"""

BOUNDS = """
## What bounds the rows that miss

- **Lookup** writes f32: the machine's stores are the limit of most rows. Two threads of this virtual machine store at
  45 or at 82 GB/s, run by run, whoever does it. Short rows of a large table wait for memory and its page tables.
- **Tables of cos and sin** have the bits of the C library: f64 arithmetic, about 70 instructions for 8 pairs.
- **Rotation of 16-bit values** that lie in a cache: the limit counts bytes; widening and rounding take the time.
- **Decode attention**: sums over lanes, conversions and softmax come on top of the multiply-adds of four heads a key.
- **One row of blocks**: weights in the third-level cache come in half the time that taking them apart takes; from the
  second-level cache the product takes 95 % as long. Weights that no cache holds come from memory at its rate.
- **Q8_0 beside int8 of torch**: its weights have one scale a row, Q8_0 one for 32 columns, whose sums are scaled in
  f32. On a CPU with 32 MiB of cache its 32 MiB fit, the 34 MiB of Q8_0 do not.
- **Many rows**: weights are used as they are stored. Peers that are ahead lay them out anew beforehand, or round
  activations (bf16 of torch beside f32 activations here).
- **A prompt in f32** of SmolLM2 runs at nine tenths of the machine's multiply-adds, so three times transformers would
  be above its limit.
"""

GROWTH = """
## Costs that grow

{cpu}, {target}, one thread, {date}; `./dev bench --growth`.

![Time of one token's attention against the context](images/growth-decode.svg)

{decode}

![Time of a prompt's attention against its length](images/growth-prompt.svg)

{prompt}

![Memory of a session against its capacity](images/growth-memory.svg)

{memory}

![Time of a step against the rows of the batch](images/growth-batch.svg)

{batch}
"""


def time_text(ns: float | None) -> str:
    if not ns:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def key_of(row: Row) -> Key:
    return row["row"], row["operation"], row["shape"], row["dtype"]


def goal_text(row: Row) -> str:
    parts = []
    if row["goal_ratio"]:
        parts.append(f"{row['goal_ratio']:g}×")
    if row["goal_percent"]:
        parts.append(f"{row['goal_percent']:g} %")
    if not parts:
        return "-"
    met = {True: "met", False: "missed", None: "no peer"}[row["goal_met"]]
    return f"{' '.join(parts)}: {met}"


def cells_of(row: Row | None, with_goal: bool) -> list[str]:
    if row is None:
        return ["-"] * (5 if with_goal else 4)
    ratio = f"{row['ratio']:.2f}×" if row["ratio"] else "-"
    percent = f"{row['percent']:.0f} %" if row["percent"] else "-"
    locant = time_text(row["ns"]) if row["ns"] else "wrong, not timed"
    peer = f"{row['peer']} {time_text(row['peer_ns'])}" if row["peer"] else "-"
    return [locant, peer, ratio, percent, *([goal_text(row)] if with_goal else [])]


def table(runs: dict[int, list[Row]]) -> list[str]:
    """One and more threads side by side."""
    counts = sorted(runs)
    head = ["", "operation", "shape", "type"]
    for threads in counts:
        word = f"{threads} thread{'s' * (threads > 1)}"
        head += [f"Locant, {word}", "best peer", "ratio", "of limit", *(["goal"] if threads == counts[0] else [])]
    by_key = {threads: {key_of(row): row for row in rows} for threads, rows in runs.items()}
    keys = list(dict.fromkeys(key_of(row) for threads in counts for row in runs[threads]))
    lines = [line(head), line(["---"] * len(head))]
    for key in sorted(keys, key=lambda k: k[0] or 99):
        cells = [str(key[0] or ""), key[1], key[2], key[3]]
        for threads in counts:
            cells += cells_of(by_key[threads].get(key), threads == counts[0])
        lines.append(line(cells))
    return lines


def every_peer(rows: list[Row]) -> list[str]:
    lines = [line(["", "operation", "shape", "type", "limit", "peers"]), line(["---"] * 6)]
    for row in sorted(rows, key=lambda r: r["row"] or 99):
        told = []
        for name, peer in sorted(row["peers"].items(), key=lambda p: p[1]["ns"] or 1e30):
            remarks = [peer["note"]] if peer["note"] and peer["ns"] else []
            if peer.get("wide"):
                remarks.append("wider")
            if (peer["error"] or 0) > 1e-3:
                remarks.append(f"off by {100 * peer['error']:.2g} %")
            time = time_text(peer["ns"]) if peer["ns"] else peer["note"]
            told.append(f"{name} {time}" + (f" ({', '.join(remarks)})" if remarks else ""))
        if told:
            limit = f"{row['limit']} {time_text(row['limit_ns'])}"
            lines.append(
                line([str(row["row"] or ""), row["operation"], row["shape"], row["dtype"], limit, "; ".join(told)])
            )
    return lines


def limits_text(limits: dict[str, Any]) -> list[str]:
    """Rates of one thread count: arithmetic in a sentence, memory as a table."""
    compute = [f"{name} {value['best'] / 1e9:.0f}" for name, value in limits.items() if "best" in value]
    memory = {name: value for name, value in limits.items() if "best" not in value}
    levels = list(next(iter(memory.values()), {}))
    lines = [f"Arithmetic, Gop/s: {', '.join(compute)}. Memory, GB/s (a copy and an update count both ways):", ""]
    lines += [line(["", *levels]), line(["---"] * (len(levels) + 1))]
    for name, value in memory.items():
        lines.append(line([name, *(f"{value[level]['best'] / 1e9:.0f}" for level in levels)]))
    return lines


def commands_text(files: list[Run]) -> str:
    """The commands that measure what is here, and how much of the table that is."""
    forced = f" --target {files[0]['machine']['target']}" if files[0]["machine"]["forced"] else ""
    told = []
    for flags in sorted({row["flags"] for run in files for row in run["rows"]}):
        rows = [row for run in files for row in run["rows"] if row["flags"] == flags]
        counts = ",".join(str(count) for count in sorted({row["threads"] for row in rows}))
        known = sum(run["rows_known"] for run in files if any(row["flags"] == flags for row in run["rows"]))
        command = f"`./dev bench{forced} --threads {counts}{' ' * bool(flags)}{flags}`"
        told.append(command if len(rows) == known else f"{command} ({len(rows)} of its {known} rows)")
    return ", ".join(told)


def span(values: Iterable[str]) -> str:
    """The first and the last, or the one there is."""
    ordered = sorted(set(values))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def section(files: list[Run]) -> list[str]:
    """All thread counts of one CPU and target."""
    machine = files[0]["machine"]
    runs: dict[int, list[Row]] = {}
    for run in files:
        for row in run["rows"]:
            runs.setdefault(row["threads"], []).append(row)
    word = f"{machine['target']} alone" if machine["forced"] else machine["target"]
    dates = span(row["date"][:10] for rows in runs.values() for row in rows)
    loads = [row["load"] for rows in runs.values() for row in rows]
    load = f"{min(loads):.1f} to {max(loads):.1f}"
    peers = dict(peer for run in files for peer in run["peers"].items())
    lines = [
        f"\n## {machine['cpu']}: {word}\n",
        f"{dates}, {commands_text(files)}, load {load}, {machine['kernel']}. "
        f"Peers: {'; '.join(peers.values()) or 'none'}.\n",
        *table(runs),
    ]
    judged = [row for rows in runs.values() for row in rows if row["goal_met"] is not None]
    if judged:
        lines.append(f"\n{sum(row['goal_met'] for row in judged)} of {len(judged)} goals met.")
    lines += two_threads(runs)
    for run in files:
        for count, limits in run["limits"].items():
            lines += [f"\n<details><summary>Limits and every peer, {count} thread{'s' * (count != '1')}</summary>\n"]
            lines += [*limits_text(limits), "", *every_peer(runs[int(count)]), "\n</details>"]
    return lines


DOUBLES = 1.8  # what two threads are due where the limit gives it


def two_threads(runs: dict[int, list[Row]]) -> list[str]:
    """Where the limit doubles with the threads, what Locant makes of it; those that make less by name."""
    if not {1, 2} <= set(runs):
        return []
    one = {key_of(row): row for row in runs[1]}
    found = []
    for row in runs[2]:
        before = one.get(key_of(row))
        if before and all((row["ns"], row["limit_ns"], before["ns"], before["limit_ns"])):
            limits = before["limit_ns"] / row["limit_ns"]
            if limits >= DOUBLES:
                found.append((key_of(row), before["ns"] / row["ns"], limits))
    short = [(key, times, limits) for key, times, limits in found if times < DOUBLES]
    fast = len(found) - len(short)
    lines = [
        f"\nTwo threads: of the {len(found)} rows whose limit is {DOUBLES} times as high or more, {fast} "
        f"are {DOUBLES} times as fast or more" + ("; the others:\n" if short else ".")
    ]
    if short:
        lines += [line(["", "operation", "shape", "type", "times as fast", "limit"]), line(["---"] * 6)]
        for key, times, limits in sorted(short):
            lines.append(line([str(key[0] or ""), *key[1:], f"{times:.2f}", f"{limits:.2f}"]))
    return lines


def at_the_end(part: dict[str, Any]) -> str:
    """The exponent between the first and the last point, and the last beside its limit."""
    first, last = part["points"][0], part["points"][-1]
    power = math.log(last["ns"] / first["ns"]) / math.log(last["length"] / first["length"])
    return (
        f"{part['shape'].capitalize()}. Time grows with the power {power:.2f} of the length; at "
        f"{growth.length_text(last['length'])} it is {time_text(last['ns'])}, "
        f"{100 * last['limit_ns'] / last['ns']:.0f} %"
    )


def growth_section(found: dict[str, Any]) -> str:
    machine, decode, prompt = found["machine"], found["decode"], found["prefill"]
    memory, tokens, batch = found["memory"]["points"], found["tokens"]["points"], found["batch"]["points"]
    above = [p["peak_bytes"] - p["cache_bytes"] - p["workspace_bytes"] for p in memory]
    model = found["model"]["name"].removesuffix(".gguf")
    fed = sum(p["steps"] for p in [*tokens, *batch])
    allocations = sum(p["allocations"] for p in [*tokens, *batch])
    return GROWTH.format(
        cpu=machine["cpu"],
        target=machine["target"],
        date=machine["date"][:10],
        decode=f"{at_the_end(decode)} of the rate at which the machine reads that much memory.",
        prompt=f"{at_the_end(prompt)} of the machine's multiply-adds.",
        memory=f"A prompt of {found['memory']['prompt']} tokens, f16 cache. The most that was held above cache and "
        "workspace, as `Model::cache_bytes` and `Model::workspace_bytes` state them, is "
        f"{max(above) / 2**20:.1f} MiB: huge pages are whole. The weights stay mapped.",
        batch=f"Behind {found['batch']['context']} tokens in each row. {fed} single-token steps here and behind "
        f"contexts of {tokens[0]['length']} to {tokens[-1]['length']} tokens of {model} made {allocations} calls of "
        "malloc.",
    )


def page(root: Path) -> str:
    found = [json.loads(path.read_text()) for path in sorted((root / RESULTS).glob("*.json"))]
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in found:
        if run["command"] == "bench":
            groups.setdefault((run["machine"]["cpu"], run["machine"]["target"]), []).append(run)
    text = HEAD
    # the widest instructions first
    for _, files in sorted(groups.items(), key=lambda group: (group[0][0], group[1][0]["machine"]["forced"])):
        text += "\n".join(section(files)) + "\n"
    text += BOUNDS
    for run in found:
        if run["command"] == "growth":
            text += growth_section(run)
    return text


def write(root: Path) -> None:
    (root / PAGE).write_text(page(root))
    print(f"bench: wrote {PAGE}")


def changed(root: Path) -> list[str]:
    """What is not as the results say."""
    found = [] if (root / PAGE).read_text() == page(root) else [str(PAGE)]
    if (root / growth.RESULT).exists():
        drawn = growth.draw_all(root).items()
        found += [str(path.relative_to(root)) for path, text in drawn if not path.exists() or path.read_text() != text]
    return found


def main() -> int:
    if sys.argv[1:] == []:
        write(ROOT)
        return 0
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    wrong = changed(ROOT)
    print(
        "\n".join(f"{name}: not as bench/results says (tools/speed_tables.py)" for name in wrong),
        end="\n" * bool(wrong),
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
