# SPDX-License-Identifier: Apache-2.0
"""check(): evidence in, a Report out."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from locant import _locant
from locant._locant import CheckReport, Evidence, Explained, Finding, Skipped, SpecError
from locant.models import Model
from locant.runtime import Runtime, from_transformers
from locant.sources import Source, open_source


class Report:
    """What check() found. It is true when nothing of severity error was found.

    A rule is in exactly one of `findings`, `explained`, `passed`, `skipped` (and `known`, with a baseline).
    """

    def __init__(self, raw: CheckReport, gone: Sequence[str] = ()) -> None:
        self._raw = raw
        self.gone: list[str] = list(gone)
        """Entries of the baseline that no finding matched any more."""

    @property
    def findings(self) -> list[Finding]:
        """Errors first, then by rule."""
        return self._raw.findings

    @property
    def errors(self) -> list[Finding]:
        """The findings of severity error."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def known(self) -> list[Finding]:
        """Findings that the baseline names: not counted."""
        return self._raw.known

    @property
    def explained(self) -> list[Explained]:
        """Findings that another one reproduces: not counted."""
        return self._raw.explained

    @property
    def passed(self) -> list[str]:
        """Ids of rules that had their evidence and found nothing."""
        return self._raw.passed

    @property
    def skipped(self) -> list[Skipped]:
        """Rules without their evidence."""
        return self._raw.skipped

    @property
    def evidence(self) -> list[Evidence]:
        """What was looked at."""
        return self._raw.evidence

    @property
    def ok(self) -> bool:
        """Whether nothing of severity error was found."""
        return not self.errors

    def __bool__(self) -> bool:
        return self.ok

    def worst(self, fail_on: str = "error") -> list[Finding]:
        """The findings of severity `fail_on` ("note", "warning" or "error") and above."""
        order = ("note", "warning", "error")
        if fail_on not in order:
            raise SpecError(f'check: severity is note, warning or error, got "{fail_on}"')
        return [finding for finding in self.findings if order.index(finding.severity) >= order.index(fail_on)]

    def to_json(self) -> str:
        """One JSON object with the keys of `locant check --json`."""
        return self._raw.to_json()

    def to_dict(self) -> dict[str, Any]:
        """to_json() as a dict."""
        told: dict[str, Any] = json.loads(self.to_json())
        return told

    def to_sarif(self) -> str:
        """SARIF 2.1.0, one run."""
        return self._raw.to_sarif()

    def to_junit(self, fail_on: str = "error") -> str:
        """JUnit's XML: a test case per rule; findings of severity `fail_on` and above fail it."""
        return self._raw.to_junit(fail_on)

    def to_baseline(self) -> str:
        """The findings as a baseline file: write it, and name it as `baseline` later."""
        return self._raw.to_baseline()

    def __str__(self) -> str:
        return self._raw.text().rstrip("\n")

    def __repr__(self) -> str:
        return (
            f"<locant.Report: {len(self.errors)} errors, {len(self.findings)} findings, "
            f"{len(self.passed)} passed, {len(self.skipped)} skipped>"
        )

    def _repr_html_(self) -> str:
        return _html(self)


STYLE = (
    "<style>.locant-report{border-collapse:collapse;font:13px/1.4 system-ui,sans-serif;color-scheme:light dark}"
    ".locant-report th,.locant-report td{text-align:left;vertical-align:top;padding:4px 10px;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 20%,transparent)}"
    ".locant-report code{font:12px/1.4 ui-monospace,monospace}"
    ".locant-error{color:#c62828}.locant-warning{color:#b26a00}.locant-note{opacity:.75}"
    "@media (prefers-color-scheme:dark){.locant-error{color:#ff8a80}.locant-warning{color:#ffcc80}}</style>"
)


def _html(report: Report) -> str:
    rows = []
    for finding in report.findings:
        cells = (
            f"<code>{html.escape(finding.rule)}</code> {html.escape(finding.name)}",
            html.escape(finding.severity),
            html.escape(finding.message),
            html.escape(str(finding.where) or finding.where.file or finding.where.key),
            html.escape(finding.next),
        )
        marked = f'<tr class="locant-{html.escape(finding.severity)}">'
        rows.append(marked + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    if not rows:
        rows.append('<tr><td colspan="5">nothing found</td></tr>')
    counts = f"{len(report.findings)} found, {len(report.passed)} rules passed, {len(report.skipped)} skipped"
    if report.known:
        counts += f", {len(report.known)} known"
    return (
        f'{STYLE}<table class="locant-report"><caption>locant check: {html.escape(counts)}</caption>'
        "<thead><tr><th>rule</th><th>severity</th><th>what</th><th>where</th><th>next</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def trace_paths(trace: Any, stack: ExitStack) -> list[str]:
    """Paths of traces; recorders are written to a temporary folder until `stack` closes."""
    if trace is None:
        return []
    if isinstance(trace, list | tuple):
        return [path for one in trace for path in trace_paths(one, stack)]
    if isinstance(trace, str | os.PathLike):
        return [os.fspath(trace)]
    if hasattr(trace, "save") and hasattr(trace, "tensors"):
        if not trace.tensors:
            raise SpecError("check: a recorder holds a forward pass, this one has recorded none")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locant-")))
        path = folder / "recorded.safetensors"
        trace.save(path)
        return [str(path)]
    raise SpecError(f"check: a trace is a path, a recorder or a list of them, got {type(trace).__name__}")


def _live(runtime: Any, model: Any, source: Source | None, recipe: str | None) -> Any:
    """What the rules drive: an object with open(), or None."""
    if runtime is None:
        return None
    if isinstance(runtime, Model):
        return runtime.loaded
    if isinstance(runtime, str):
        if source is None:
            raise SpecError(f'check: runtime "{runtime}" needs a model')
        if runtime == "locant":
            return _locant.load(source.path, recipe or "", "f32", "as_stored", "f32", None)
        if runtime == "hf":
            return from_transformers(source.path if source.weights else model)
        raise SpecError(f'check: runtime is "locant", "hf" or a locant.Runtime, got "{runtime}"')
    if isinstance(runtime, Runtime) or hasattr(runtime, "open"):
        return runtime
    raise SpecError(f'check: runtime is "locant", "hf" or a locant.Runtime, got {type(runtime).__name__}')


def _ids(ids: Any) -> list[int]:
    if ids is None:
        return []
    return [int(one) for one in (ids.reshape(-1).tolist() if hasattr(ids, "reshape") else ids)]


def check(
    model: Any = None,
    *,
    trace: Any = None,
    against: Any = None,
    recipe: str | None = None,
    runtime: Any = None,
    ids: Any = None,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    baseline: str | os.PathLike[str] | None = None,
    hash: str = "headers",
) -> Report:
    """Finds position and embedding faults, and names them.

    `model`: a path, a bundled model's name, a config as a dict, or a transformers model or config; None = the traces
    alone, and rules that need a config are skipped. `trace`: recorded passes: a path, what locant.trace() gave, or a
    list of them. `against`: the source or the conversion of `model`. `recipe`: whose meaning the config is read under
    ("hf"; "llama.cpp" for GGUF). `runtime`: what the live rules drive: "locant", "hf", a Model or a Runtime; None =
    they are skipped; `ids` is their prompt. `select`, `ignore`: rule ids or beginnings of them. `baseline`: a file of
    known findings. `hash`: "headers" or "whole".

    Raises SpecError (ValueError) for an unknown recipe or rule, FileError (OSError) for damaged files, and what the
    runtime raises.
    """
    if model is None and trace is None:
        raise SpecError("check: give a model, a trace or both")
    with ExitStack() as stack:
        source = None if model is None else open_source(model, stack)
        other = None if against is None else open_source(against, stack)
        if source is None and (other is not None or runtime is not None):
            raise SpecError("check: against and runtime need a model")
        raw = _locant.check(
            spec=source.spec if source else None,
            weights=source.weights if source else "",
            against=other.spec if other else None,
            against_weights=other.weights if other else "",
            traces=trace_paths(trace, stack),
            recipe=recipe or "",
            runtime=_live(runtime, model, source, recipe),
            ids=_ids(ids),
            select=[select] if isinstance(select, str) else list(select),
            ignore=[ignore] if isinstance(ignore, str) else list(ignore),
            hash=hash,
        )
        gone = [] if baseline is None else raw.apply_baseline(os.fspath(baseline))
        return Report(raw, gone)
