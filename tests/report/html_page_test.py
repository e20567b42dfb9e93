# SPDX-License-Identifier: Apache-2.0
"""The page as browsers meet it: XML, contrast of its colours, and in Chromium nothing logged, nothing fetched and no
sideways scrolling on a phone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
TEXT_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
MARK_CONTRAST = 3.0  # 1.4.11
PHONE = 390


def locant(*arguments: str) -> int:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.exists():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with findings: the passes of another one are checked against it."""
    folder = tmp_path_factory.mktemp("a page")
    trace = folder / "rope.safetensors"
    locant("trace", "rope", "-o", str(trace), "--ids", "76,108,105,36,69,70", "--steps", "2", "--quiet")
    path = folder / "page #1.html"
    assert locant("report", "alibi", "--trace", str(trace), "-o", str(path), "--quiet") == 1
    return path


def test_an_xml_parser_reads_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == "html"
    assert [part.get("id") for part in root.iter("section")][:2] == ["inspect", "check"]
    assert len(text.encode()) < 1_000_000


def test_the_same_page_for_the_same_date(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.chdir(tmp_path)
    texts = []
    for _ in range(2):
        locant("inspect", "rope", "--html", "page.html")
        texts.append((tmp_path / "page.html").read_bytes())
    assert texts[0] == texts[1]
    assert b"2023-11-14 22:13 UTC" in texts[0]


# ---------------------------------------------------------------------------------------------
# Colours


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes(style: str) -> dict[str, dict[str, str]]:
    """The colours of the page by theme; dark and paper replace some of the light ones."""
    blocks = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(blocks) == 3
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    return {name: {**found[0], **colors} for name, colors in zip(("light", "dark", "paper"), found, strict=True)}


def test_colours_stand_out(page: Path) -> None:
    style = ElementTree.fromstring(page.read_text(encoding="utf-8")).findtext("head/style") or ""
    for theme, color in themes(style).items():
        for text, ground in (
            *((text, ground) for text in ("ink", "soft", "link") for ground in ("paper", "card")),
            *((word, f"{word}-bg") for word in ("error", "warning", "note", "fine")),
        ):
            assert contrast(color[text], color[ground]) >= TEXT_CONTRAST, (theme, text, ground)
        for mark in ("main", "other", "quiet"):
            assert contrast(color[mark], color["paper"]) >= MARK_CONTRAST, (theme, mark)


def test_contrast_is_measured() -> None:
    assert round(contrast("#ffffff", "#000000")) == 21
    assert contrast("#777777", "#ffffff") < TEXT_CONTRAST


# ---------------------------------------------------------------------------------------------
# In a browser

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")


def browse(target: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ]
    done = subprocess.run(
        [*command, f"--user-data-dir={target.parent / 'profile'}", *flags, target.as_uri()],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


@needs_chromium
def test_nothing_is_logged_and_nothing_fetched(page: Path, tmp_path: Path) -> None:
    log = tmp_path / "net.json"
    done = browse(page, "--dump-dom", "--enable-logging=stderr", f"--log-net-log={log}")
    assert "CONSOLE" not in done.stderr
    assert "</html>" in done.stdout
    text = log.read_text(encoding="utf-8", errors="replace")
    asked = {url for url in re.findall(r'"url":"([^"]+)"', text) if not url.startswith(("chrome", "data:", "file:"))}
    own = {url for url in asked if not re.search(r"google|gstatic|gvt1|chromium", url)}  # the browser's own errands
    assert own == set()


@needs_chromium
def test_a_phone_does_not_scroll_sideways(page: Path, tmp_path: Path) -> None:
    """The copy says how wide it is, with everything unfolded; a frame stands for the phone."""
    text = page.read_text(encoding="utf-8").replace("<details", '<details open="open"')
    text, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*/>', "", text)
    assert count == 1
    tell = "parent.postMessage([document.documentElement.scrollWidth, innerWidth], '*')"
    (tmp_path / "inside.html").write_text(text.replace("</body>", f"<script>{tell}</script></body>"), encoding="utf-8")
    outside = tmp_path / "outside.html"
    outside.write_text(
        "<!DOCTYPE html><title>wait</title>"
        f'<iframe src="inside.html" width="{PHONE}" height="800" style="border:0"></iframe>'
        "<script>addEventListener('message', e => { document.title = JSON.stringify(e.data) })</script>",
        encoding="utf-8",
    )
    done = browse(outside, "--dump-dom", "--virtual-time-budget=5000")
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title
    wide, inner = json.loads(title[1])
    assert inner == PHONE
    assert wide <= PHONE
