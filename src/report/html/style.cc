// SPDX-License-Identifier: Apache-2.0
// Colours of text stand at 4.5:1 or more against what they lie on, those of marks at 3:1.
#include "report/html/style.h"

namespace locant::html {

std::string_view style_sheet() noexcept {
  return R"css(
:root { color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1a1e24; --soft: #4d5763; --edge: #d5dae1; --grid: #e6e9ee;
  --link: #0b57b8; --main: #1a62c5; --other: #b04a00; --quiet: #5f6b78;
  --error: #a3140f; --error-bg: #fdebea; --warning: #7a4a00; --warning-bg: #fdf1dc;
  --note: #1c4f96; --note-bg: #e8f0fc; --fine: #17632f; --fine-bg: #e5f5ea; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --card: #1c2127; --ink: #e7eaee; --soft: #aab4bf; --edge: #39424c; --grid: #2a3138;
  --link: #8dbbff; --main: #7db1ff; --other: #ffab66; --quiet: #98a4b1;
  --error: #ffa49d; --error-bg: #3b1a19; --warning: #f5c676; --warning-bg: #36290f;
  --note: #a9cbff; --note-bg: #16283f; --fine: #8fdba7; --fine-bg: #14301d; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
body, dd, li { overflow-wrap: anywhere; }
th, td { overflow-wrap: break-word; }
header, nav, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; }
main { padding-bottom: 3rem; }
main:focus { outline: none; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.4rem; letter-spacing: -0.01em; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 0.6rem; padding-top: 1.2rem; border-top: 1px solid var(--edge); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 0.5rem; }
p { margin: 0.4rem 0; max-width: 46rem; }
a { color: var(--link); text-underline-offset: 0.15em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
code { font: 0.9em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; unicode-bidi: isolate; }
.brand, .small { color: var(--soft); font-size: 0.875rem; }
.brand { margin: 0 0 0.6rem; }
.skip { position: absolute; left: -99rem; top: 0.5rem; background: var(--paper); padding: 0.5rem 1rem; }
.skip:focus { left: 0.5rem; z-index: 1; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.4rem 1.4rem; list-style: none; margin: 1.2rem 0 0; padding: 0; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: 0.3rem 1.2rem; margin: 0.8rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
.verdicts { list-style: none; margin: 1.4rem 0 0; padding: 0; display: grid; gap: 0.6rem; }
.verdicts li { border-left: 0.3rem solid var(--quiet); background: var(--card); padding: 0.6rem 0.9rem; border-radius: 0.2rem; }
.verdicts b { margin-right: 0.3rem; }
.verdicts .bad { border-color: var(--error); } .verdicts .odd { border-color: var(--warning); }
.verdicts .good { border-color: var(--fine); }
.badge { display: inline-block; font-size: 0.78rem; font-weight: 600; padding: 0.08rem 0.55rem; border-radius: 1rem;
  margin-right: 0.5rem; border: 1px solid currentColor; white-space: nowrap; vertical-align: 0.1em; }
.badge.error { color: var(--error); background: var(--error-bg); }
.badge.warning { color: var(--warning); background: var(--warning-bg); }
.badge.note { color: var(--note); background: var(--note-bg); }
.badge.fine { color: var(--fine); background: var(--fine-bg); }
article { border: 1px solid var(--edge); border-radius: 0.5rem; padding: 0.2rem 1.2rem 1rem; margin: 1rem 0; }
article h4 { font-size: 1rem; margin: 0.9rem 0 0.4rem; }
article h5 { font-size: 0.9rem; margin: 1rem 0 0.2rem; color: var(--soft); }
article > p:first-of-type { font-size: 1.02rem; }
.causes { margin: 0.3rem 0; padding-left: 1.4rem; }
.causes li { margin: 0.5rem 0; }
.causes .small { display: block; }
.scroll { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0; border-bottom: 1px solid var(--grid);
  unicode-bidi: isolate; min-width: 3.4rem; max-width: 24rem; }
thead th { border-bottom: 1px solid var(--edge); color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; }
td.n { text-align: right; white-space: nowrap; }
details { margin: 0.5rem 0; }
summary { cursor: pointer; color: var(--link); width: fit-content; }
details.numbers summary { font-size: 0.875rem; }
figure { margin: 1.2rem 0 1.6rem; }
figcaption .title { font-weight: 600; }
figcaption p { color: var(--soft); font-size: 0.9rem; margin: 0.15rem 0 0; }
.key { display: flex; flex-wrap: wrap; gap: 0.1rem 1.3rem; list-style: none; margin: 0.5rem 0 0; padding: 0; font-size: 0.85rem; }
.sample { margin-right: 0.4rem; vertical-align: -0.1em; overflow: visible; }
svg { display: block; overflow: visible; fill: none; }
svg.sample { display: inline-block; }
svg.chart { width: 100%; height: 296px; padding: 30px 14px 46px 52px; }
svg.strip { width: 100%; height: 96px; padding: 6px 0 42px; }
svg.ladder { width: 100%; padding: 0 14px 0 0; }
svg.cause { width: 100%; height: 16px; margin: 3px 0; }
svg.scale { width: 100%; height: 38px; }
svg.heat { width: 100%; padding: 30px 4px 0 84px; }
svg.stretched { overflow: visible; }
svg text { fill: var(--ink); font-size: 12px; stroke: none; }
svg .tick, svg .label { fill: var(--soft); }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
svg .name { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; fill: var(--soft); }
svg .rung, svg .value { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg .rung { font-size: 13px; } svg .strong { font-weight: 600; } svg .value { fill: var(--soft); }
.grid { stroke: var(--grid); } .axis { stroke: var(--quiet); }
.reference { stroke: var(--quiet); stroke-dasharray: 2 3; } .absent { stroke: var(--quiet); stroke-dasharray: 1 5; }
svg text.absent { font-style: italic; stroke-dasharray: none; }
path { vector-effect: non-scaling-stroke; }
.main { --tone: var(--main); } .other { --tone: var(--other); } .quiet { --tone: var(--quiet); }
.line { stroke: var(--tone); stroke-width: 1.8px; stroke-linejoin: round; } .dashes { stroke-dasharray: 6 4; }
.interval { stroke: var(--tone); stroke-width: 1.5px; }
.dots { stroke: var(--tone); stroke-width: 6px; stroke-linecap: round; }
.dots.ring { stroke-width: 8px; } .dots.hole { stroke-width: 4.4px; }
.squares { stroke: var(--tone); stroke-width: 7px; stroke-linecap: square; } .squares.hole { stroke-width: 3.6px; }
.ring { stroke: var(--tone); } path.hole { stroke: var(--paper); }
.hover { fill: transparent; pointer-events: all; } .hover:hover { fill: var(--tone, var(--quiet)); fill-opacity: 0.4; }
.bar { fill: var(--quiet); } .bar.strong { fill: var(--main); } .bar.within { fill: var(--main); } .bar.beyond { fill: var(--other); }
.track { fill: var(--grid); } .budget { stroke: var(--ink); stroke-width: 2px; }
.cell.main { fill: var(--main); } .cell.other { fill: var(--other); } .cell.quiet { fill: var(--quiet); }
.cell.outlined { fill: none; stroke: var(--quiet); stroke-dasharray: 2 2; }
.cell.frame { stroke: var(--edge); } .cell.part { fill: var(--main); fill-opacity: 0.3; }
footer { border-top: 1px solid var(--edge); padding-top: 1rem; padding-bottom: 2rem; color: var(--soft); font-size: 0.875rem; }
@media (max-width: 40rem) { .spare { display: none; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.5rem; }
  header, nav, main, footer { padding-left: 1rem; padding-right: 1rem; } article { padding: 0.1rem 0.8rem 0.8rem; }
  td { overflow-wrap: anywhere; } }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --card: #ffffff; --ink: #000000; --soft: #333333; --edge: #999999;
    --grid: #dddddd; --link: #000000; --main: #1a62c5; --other: #b04a00; --quiet: #5f6b78;
    --error: #a3140f; --error-bg: #ffffff; --warning: #7a4a00; --warning-bg: #ffffff;
    --note: #1c4f96; --note-bg: #ffffff; --fine: #17632f; --fine-bg: #ffffff; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10.5pt; } header, nav, main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  nav, .skip, details.numbers { display: none; } .scroll { overflow: visible; } td { overflow-wrap: anywhere; }
  figure, tr, .verdicts li { break-inside: avoid; } h2, h3, h4, h5, figcaption { break-after: avoid; }
  a { text-decoration: none; } @page { margin: 16mm 14mm; } }
)css";
}

}  // namespace locant::html
