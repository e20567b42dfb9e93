# SPDX-License-Identifier: Apache-2.0
"""Peers prepare a row once and answer for their first call; a published page says what was measured, and a run that is
stopped keeps what it has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dev_bench
import growth
import protocol
import speed_tables
from dev_system import Stop
from protocol import Peer, Request, Variant

ROW: Request = {"op": "head", "tokens": 1, "dtype": "Q4_0 int8"}


def peer_of(row: Callable[[Request], Iterator[Variant]]) -> Peer:
    return Peer(lambda: ("peer 1", {"head": row}), time.perf_counter_ns, {"head": row}, [])


def test_a_row_is_prepared_once_and_again_for_another_request() -> None:
    prepared: list[Request] = []

    def head(request: Request) -> Iterator[Variant]:
        prepared.append(request)
        yield Variant(lambda: None, "one", lambda _: 0.5, "a note")

    peer = peer_of(head)
    first = peer.answer(dict(ROW))
    assert first == {
        "variants": [{"name": "one", "error": 0.5, "note": "a note", "wide": False}],
        "failure": "",
    }
    assert peer.answer({**ROW, "dtype": "Q4_0 f32"}) == first  # the activations are not the peer's business
    assert peer.answer({"slice": 0, "variant": 0})["ns"] > 0
    assert len(prepared) == 1
    peer.answer({**ROW, "tokens": 8})
    assert peer.answer({"op": "lookup"}) == {"variants": []}  # and lets go of the memory
    peer.answer(dict(ROW))
    assert [request["tokens"] for request in prepared] == [1, 8, 1]


def test_the_first_call_is_the_one_that_is_checked() -> None:
    calls: list[int] = []
    checked: list[object] = []

    def call() -> int:
        calls.append(len(calls))
        return calls[-1]

    def check(answer: object) -> float:
        checked.append((answer, len(calls)))
        return 0

    protocol.ready(Variant(call, "one", check), time.perf_counter_ns)
    assert checked == [(0, 1)]
    assert len(calls) > 1  # short calls are warmed


def test_long_calls_are_not_repeated_before_they_are_timed() -> None:
    ticks = iter(range(0, 100 * protocol.LONG_NS, 2 * protocol.LONG_NS))
    calls: list[int] = []
    protocol.ready(Variant(lambda: calls.append(1), "one"), lambda: next(ticks))
    assert len(calls) == 1


def test_what_a_peer_raises_is_told_and_its_other_variants_stay() -> None:
    def head(_: Request) -> Iterator[Variant]:
        yield Variant(lambda: None, "one")
        yield Variant(lambda: 1 / 0, "two")

    answer = peer_of(head).answer(dict(ROW))
    assert [variant["name"] for variant in answer["variants"]] == ["one"]
    assert answer["failure"] == "ZeroDivisionError: division by zero"


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"threads": 1, "flags": "", **fields} for _ in range(count)]


def run(found: list[dict[str, Any]], **machine: Any) -> dict[str, Any]:
    return {"machine": {"target": "AVX2", "forced": False, **machine}, "rows": found, "rows_known": 3}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([run(rows(3))], "`./dev bench --threads 1`"),
        ([run(rows(3), forced=True)], "`./dev bench --target AVX2 --threads 1`"),
        ([run(rows(3)), run(rows(3, threads=2))], "`./dev bench --threads 1,2`"),
        ([run(rows(2))], "`./dev bench --threads 1` (2 of its 3 rows)"),
        (
            [run([*rows(1), *rows(2, flags="--quick")])],
            "`./dev bench --threads 1` (1 of its 3 rows), `./dev bench --threads 1 --quick` (2 of its 3 rows)",
        ),
    ],
)
def test_the_page_names_the_commands_that_measured_it(files: list[dict[str, Any]], text: str) -> None:
    assert speed_tables.commands_text(files) == text


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    written: list[Path] = []
    monkeypatch.setattr(speed_tables, "write", written.append)
    monkeypatch.setattr(dev_bench, "run", lambda *_, **__: None)
    monkeypatch.setattr(growth, "main", lambda *_: 0)
    return written


def built(*_: str) -> Path:
    return Path("build")


def test_publishing_measures_both_targets_and_saves_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_page: list[Path]
) -> None:
    asked: list[list[str]] = []

    def table(arguments: list[str], _: object) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(dev_bench, "table", table)
    assert dev_bench.publish(["--resume"], tmp_path, built) == 0
    saved = ["--threads", "1,2", "--save", str(tmp_path / "bench/results"), "--resume"]
    assert asked == [saved, ["--target", "AVX2", *saved]]
    assert no_page == [tmp_path]


@pytest.mark.parametrize("ending", ["key", "signal"])
def test_publishing_that_is_stopped_writes_the_page_from_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_page: list[Path], ending: str
) -> None:
    asked: list[int] = []

    def table(*_: object) -> int:
        asked.append(1)
        if ending == "key":
            raise KeyboardInterrupt
        return -2

    monkeypatch.setattr(dev_bench, "table", table)
    assert dev_bench.publish([], tmp_path, built) == dev_bench.INTERRUPTED
    assert (len(asked), no_page) == (1, [tmp_path])


def test_publishing_refuses_what_it_sets_itself(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="it sets --threads itself"):
        dev_bench.publish(["--threads", "1"], tmp_path, built)


def test_a_published_result_says_when_and_how_each_row_was_measured() -> None:
    found = sorted((speed_tables.ROOT / speed_tables.RESULTS).glob("*.json"))
    runs = [one for one in (json.loads(path.read_text()) for path in found) if one["command"] == "bench"]
    assert runs
    for one in runs:
        assert one["rows_known"] >= len(one["rows"]) > 0
        assert all({"date", "load", "flags"} <= row.keys() for row in one["rows"])
