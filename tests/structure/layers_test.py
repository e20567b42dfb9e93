# SPDX-License-Identifier: Apache-2.0
"""Every #include of the library, the command and the examples against the table of layers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tree import ROOT, files, place, write

# room -> the rooms it may include besides itself and core
LAYERS: dict[str, set[str]] = {
    "core": set(),
    "formats": set(),
    "kernels": set(),
    "reference": set(),
    "positions": set(),
    "trace": {"formats", "positions"},
    "runtime": {"positions"},
    "text": {"formats"},
    "spec": {"formats", "positions"},
    "facts": {"spec", "formats", "positions"},
    "ops": {"kernels", "positions"},
    "model": {"ops", "spec", "formats", "positions", "text", "trace", "runtime"},
    # the checker shares no code with what it would blame: never ops, kernels or model
    "check": {"facts", "spec", "formats", "trace", "positions", "reference", "runtime"},
    "trust": {"facts", "spec", "formats", "positions", "runtime"},
    "report": {"facts", "check", "trust", "formats"},
}
# public header -> the room that implements it
OWNERS: dict[str, str] = {
    "core.h": "core",
    "threads.h": "core",
    "formats.h": "formats",
    "plan.h": "positions",
    "recipe.h": "positions",
    "positions.h": "positions",
    "ops.h": "ops",
    "head.h": "ops",
    "spec.h": "spec",
    "facts.h": "facts",
    "compare.h": "facts",
    "check.h": "check",
    "trust.h": "trust",
    "report.h": "report",
    "runtime.h": "runtime",
    "trace.h": "trace",
    "text.h": "text",
    "model.h": "model",
}
THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "formats": ("nlohmann/", "fmt/"),
    "positions": ("fmt/", "hwy/"),
    "kernels": ("hwy/",),
    "trace": ("fmt/", "nlohmann/"),
    "text": ("fmt/", "nlohmann/", "sentencepiece_processor.h"),
    "spec": ("fmt/", "nlohmann/"),
    "facts": ("fmt/",),
    "ops": ("fmt/",),
    "model": ("fmt/",),
    "check": ("fmt/",),
    "trust": ("fmt/",),
    "report": ("fmt/", "nlohmann/"),
    "cli": ("fmt/", "nlohmann/", "CLI/"),
    "python": ("fmt/", "nanobind/"),
}
SYSTEM = re.compile(r"[a-z_]+$|(sys|linux|mach|arpa|netinet)/[a-z_]+\.h$|(fcntl|pthread|sched|unistd|dirent|poll)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def wrong(user: str, name: str) -> str:
    """Why `user` (a room, "cli", "examples" or "python") may not include `name`, or ""."""
    room, _, rest = name.partition("/")
    if SYSTEM.match(name):
        return ""
    if room == "locant":
        owner = OWNERS.get(rest)
        if owner is None:
            return f"no room owns the public header {name}"
        free = user in ("cli", "examples", "python") or owner in {user, "core"} | LAYERS[user]
        return "" if free else f"{user} may not use {owner}'s public header {name}"
    if user in ("cli", "python") and room == "cli":
        return ""
    if room in LAYERS:
        if user not in LAYERS:
            return f"{user} uses public headers only, not {name}"
        return "" if room in {user, "core"} | LAYERS[user] else f"{user} may not include {name}"
    if name.startswith(THIRD_PARTY.get(user, ())):
        return ""
    return f"{user} may not include {name}"


def violations(root: Path) -> list[str]:
    found = []
    users: list[tuple[str, Path]] = []
    for path in files(root, "src"):
        room = path.relative_to(root / "src").parts[0]
        if room not in LAYERS:
            found.append(f"{place(root, path)}: {room} is no room of the table")
        else:
            users.append((room, path))
    for path in files(root, "include"):
        if path.name not in OWNERS:
            found.append(f"{place(root, path)}: no room owns this public header")
        else:
            users.append(("public " + OWNERS[path.name], path))
    users += [(name, path) for name in ("cli", "examples", "python") for path in files(root, name)]
    for user, path in users:
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            name, line = match.group(2), text.count("\n", 0, match.start(1)) + 1
            public = user.startswith("public ")
            reason = wrong(user.removeprefix("public "), name)
            if public and not SYSTEM.match(name) and not name.startswith("locant/"):
                reason = f"a public header includes the standard library and locant/*.h only, not {name}"
            if user in ("cli", "python") and "/" not in name and (path.parent / name).exists():
                reason = ""
            if reason:
                found.append(f"{place(root, path, line)}: {reason}")
    return found


def rooms_of_cmake(root: Path) -> set[str]:
    return set(re.findall(r"^locant_room\((\w+)", (root / "CMakeLists.txt").read_text(), re.M))


def test_includes() -> None:
    assert violations(ROOT) == []


def test_every_room_of_the_build_is_in_the_table() -> None:
    assert rooms_of_cmake(ROOT) <= set(LAYERS)
    assert {path.name for path in (ROOT / "src").iterdir() if any(path.glob("*.cc"))} <= rooms_of_cmake(ROOT)


def test_the_table_has_no_cycle() -> None:
    below: set[str] = set()
    while True:
        ready = {room for room, uses in LAYERS.items() if room not in below and uses <= below}
        if not ready:
            break
        below |= ready
    assert below == set(LAYERS)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("src/core/a.cc", '#include "formats/x.h"\n', "core may not include formats/x.h"),
        ("src/core/a.cc", "#include <fmt/format.h>\n", "core may not include fmt/format.h"),
        ("src/kernels/a.cc", '#include "locant/plan.h"\n', "kernels may not use positions's public header"),
        ("src/check/a.cc", '#include "ops/x.h"\n', "check may not include ops/x.h"),
        ("src/ops/a.cc", "#include <hwy/highway.h>\n", "ops may not include hwy/highway.h"),
        ("src/helpers/a.cc", "", "helpers is no room"),
        ("src/spec/a.cc", '#include "locant/unknown.h"\n', "no room owns the public header"),
        ("include/locant/ops.h", "#include <vector>\n#include <hwy/highway.h>\n", ":2: a public header includes"),
        ("include/locant/ops.h", '#include "ops/inside.h"\n', "a public header includes"),
        ("include/locant/text.h", '#include "locant/model.h"\n', "text may not use model's public header"),
        ("cli/run.cc", '#include "model/family.h"\n', "cli uses public headers only"),
        ("examples/a.cc", "#include <fmt/format.h>\n", "examples may not include fmt/format.h"),
        ("python/src/a.cc", '#include "ops/check.h"\n', "python uses public headers only"),
    ],
)
def test_a_seeded_violation_is_found(tmp_path: Path, name: str, text: str, said: str) -> None:
    write(tmp_path, name, text)
    found = violations(tmp_path)
    assert len(found) == 1
    assert said in found[0]


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    write(tmp_path, "src/model/a.cc", '#include <sys/mman.h>\n#include "locant/spec.h"\n#include "ops/x.h"\n')
    write(tmp_path, "cli/run.cc", '#include <CLI/CLI.hpp>\n#include "cli/host.h"\n#include "locant/model.h"\n')
    assert violations(tmp_path) == []
