"""Line charts as self-contained SVG: logarithmic axes, lines named at their ends, light and dark by the reader's own
setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 78, 180, 56, 56
MOST_MARKS = 8
STYLE = """
  :root { color-scheme: light dark; }
  .paper { fill: #ffffff; }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 13px; fill: #57606a; }
  .title { font-size: 16px; font-weight: 600; fill: #1f2328; }
  .grid { stroke: #d8dee4; stroke-width: 1; }
  .axis { stroke: #8c959f; stroke-width: 1; }
  .line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; }
  .dashed { stroke-dasharray: 6 5; }
  .l0 { stroke: #0969da; } .d0 { fill: #0969da; } .t0 { fill: #0550ae; font-weight: 600; }
  .l1 { stroke: #bc4c00; } .d1 { fill: #bc4c00; } .t1 { fill: #953800; font-weight: 600; }
  .l2 { stroke: #6e7781; } .d2 { fill: #6e7781; } .t2 { fill: #57606a; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    text { fill: #9198a1; }
    .title { fill: #f0f6fc; }
    .grid { stroke: #21262d; }
    .axis { stroke: #656c76; }
    .l0 { stroke: #58a6ff; } .d0 { fill: #58a6ff; } .t0 { fill: #79c0ff; }
    .l1 { stroke: #f0883e; } .d1 { fill: #f0883e; } .t1 { fill: #ffa657; }
    .l2 { stroke: #8b949e; } .d2 { fill: #8b949e; } .t2 { fill: #b1bac4; }
  }
"""


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    color: int = 0  # 0 blue, 1 orange, 2 grey
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    title: str
    across: str  # what runs to the right
    lines: Sequence[Line]
    value: Callable[[float], str]  # words of a number on the upright axis
    place: Callable[[float], str]  # words of a number on the other


def marks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten around the values; inside a long range the powers alone."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [digit * 10.0**n for n in exponents for digit in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low * (1 + 1e-9))
    last = min(i for i, step in enumerate(steps) if step >= high * (1 - 1e-9))
    found = steps[first : last + 1]
    if len(found) <= MOST_MARKS:
        return found
    return [step for step in found if step in (found[0], found[-1]) or math.log10(step) % 1 in (0.0, 1.0)]


def apart(wanted: list[float], step: float) -> list[float]:
    """Heights of labels, moved so that neighbours are `step` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + step)
    return placed


def draw(chart: Chart) -> str:
    xs = [x for line in chart.lines for x, _ in line.points]
    ys = [y for line in chart.lines for _, y in line.points]
    marks_x, marks_y = sorted(set(xs)), marks(min(ys), max(ys))

    def at_x(x: float) -> float:
        low, high = math.log(min(xs)), math.log(max(xs))
        return LEFT + (math.log(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        low, high = math.log(marks_y[0]), math.log(marks_y[-1])
        return HEIGHT - BOTTOM - (math.log(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    end = WIDTH - RIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(chart.title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="title" x="20" y="32">{escape(chart.title)}</text>',
    ]
    for y in marks_y:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}"/>')
        out.append(f'<text x="{LEFT - 9}" y="{at_y(y) + 4.5:.1f}" text-anchor="end">{escape(chart.value(y))}</text>')
    base = HEIGHT - BOTTOM
    out.append(f'<line class="axis" x1="{LEFT}" x2="{end}" y1="{base}" y2="{base}"/>')
    for x in marks_x:
        out.append(f'<line class="axis" x1="{at_x(x):.1f}" x2="{at_x(x):.1f}" y1="{base}" y2="{base + 4}"/>')
        out.append(f'<text x="{at_x(x):.1f}" y="{base + 19}" text-anchor="middle">{escape(chart.place(x))}</text>')
    out.append(f'<text x="{(LEFT + end) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.across)}</text>')
    heights = apart([at_y(line.points[-1][1]) for line in chart.lines], 17)
    for line, height in zip(chart.lines, heights, strict=True):
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in line.points)
        out.append(f'<polyline class="line l{line.color}{" dashed" * line.dashed}" points="{path}"/>')
        if not line.dashed:
            out += [
                f'<circle class="d{line.color}" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3.5"/>' for x, y in line.points
            ]
        out.append(f'<text class="t{line.color}" x="{end + 10}" y="{height + 4.5:.1f}">{escape(line.name)}</text>')
    return "\n".join([*out, "</svg>", ""])
