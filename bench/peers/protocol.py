"""How a peer speaks with bench_locant: one JSON request a line on stdin, one answer a line on stdout.

{"hello": true}                      -> {"name": "torch 2.13.0"} or {"missing": "torch is not installed"}
{"op": ..., ...}                     -> {"variants": [{"name", "error", "note", "wide"}, ...]}: prepared, checked, warm
{"slice": seconds, "variant": index} -> {"ns": one call, the best of the slice}

`error` is the largest deviation over the largest value of the answer in f64, for the same inputs. `wide`: the variant
may use instructions beyond LOCANT_BENCH_TARGET. Rows that differ only on Locant's side send the same request: it is
prepared once. usage of every peer: PEER.py THREADS
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

Request = dict[str, Any]
Call = Callable[[], Any]
Answer = dict[str, Any]

SAMPLE_NS = 20_000  # the clock and the loop cost a percent of this at most
LONG_NS = 300_000_000  # the checked call is warmth enough for what takes longer
THREADS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1
TARGET = os.environ.get("LOCANT_BENCH_TARGET", "")
QUICK = bool(os.environ.get("LOCANT_BENCH_QUICK"))


class Missing(Exception):
    """Why the peer cannot run here, in one line."""


def unknown(_: Any) -> float:
    return -1


@dataclass
class Variant:
    """`check` gets what the first call returned and tells the error of that answer; it runs before any other call."""

    call: Call
    name: str
    check: Callable[[Any], float] = unknown
    note: str = ""
    wide: bool = False
    repeats: int = 1  # operations that one call does
    batch: int = 1  # calls in one reading of the clock; found by ready()
    error: float = -1  # found by ready()

    def told(self) -> Answer:
        return {"name": self.name, "error": self.error, "note": self.note, "wide": self.wide}


Rows = dict[str, Callable[[Request], Iterator[Variant]]]


def clock(own_threads: bool) -> Callable[[], int]:
    """CPU time where one thread works (of the process, where the library has threads of its own), else wall time."""
    if THREADS > 1:
        return time.perf_counter_ns
    return time.process_time_ns if own_threads else time.thread_time_ns


def ready(variant: Variant, now: Callable[[], int]) -> Variant:
    """Called and checked; warm, where one call does not warm it."""
    before = now()
    answer = variant.call()
    best = float(now() - before)
    variant.error = variant.check(answer)
    del answer
    variant.check = unknown  # and lets go of what it compared with
    if best > LONG_NS:
        return variant
    best = float("inf")
    for _ in range(3):
        before = now()
        variant.call()
        best = min(best, now() - before)
        if best > SAMPLE_NS:
            break
    variant.batch = int(min(max(SAMPLE_NS / max(best, 1), 1), 1000))
    return variant


def best_ns(variant: Variant, seconds: float, now: Callable[[], int]) -> float:
    best, start, call, calls = float("inf"), time.perf_counter(), variant.call, range(variant.batch)
    while True:
        before = now()
        for _ in calls:
            call()
        best = min(best, now() - before)
        if time.perf_counter() - start >= seconds:
            return best / variant.batch / variant.repeats


def prepared(request: Request, rows: Rows, now: Callable[[], int]) -> tuple[list[Variant], str]:
    """The variants that work; a reason where one of them raised."""
    variants: list[Variant] = []
    try:
        for variant in rows[request["op"]](request):
            variants.append(ready(variant, now))
    except Exception as error:  # a peer's own complaint belongs into the table, whatever its type
        lines = str(error).strip().splitlines()
        return variants, f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
    return variants, ""


@dataclass
class Peer:
    """What is prepared at the moment."""

    start: Callable[[], tuple[str, Rows]]
    now: Callable[[], int]
    rows: Rows
    variants: list[Variant]
    request: Request | None = None
    failure: str = ""

    def greeting(self) -> Answer:
        try:
            name, self.rows = self.start()
        except (Missing, ImportError, OSError) as error:
            return {"missing": str(error)}
        return {"name": name}

    def slice(self, request: Request) -> Answer:
        try:
            return {"ns": best_ns(self.variants[request["variant"]], request["slice"], self.now)}
        except Exception as error:
            return {"failure": f"{type(error).__name__}: {error}"[:200]}

    def row(self, request: Request) -> Answer:
        if request != self.request:
            self.request = None
            self.variants.clear()  # the memory of the row before
            self.variants, self.failure = prepared(request, self.rows, self.now)
            self.request = request
        return {"variants": [variant.told() for variant in self.variants], "failure": self.failure}

    def answer(self, request: Request) -> Answer:
        if "dtype" in request:  # "Q4_0 int8": the weight's, then the activations'
            request["dtype"], *_ = str(request["dtype"]).lower().split()
        if "hello" in request:
            return self.greeting()
        if "slice" in request:
            return self.slice(request)
        if request.get("op") in self.rows:
            return self.row(request)
        self.request = None
        self.variants.clear()
        return {"variants": []}


def serve(
    start: Callable[[], tuple[str, Rows]],
    own_threads: bool = False,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """Answers requests until stdin ends. What libraries print goes to stderr, stdout is for answers alone."""
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        peer = Peer(start, clock(own_threads), {}, [])
        for line in sys.stdin:
            with around():
                answer = peer.answer(json.loads(line))
            print(json.dumps(answer), file=answers, flush=True)
