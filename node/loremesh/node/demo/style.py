"""The page's style sheet: two colour schemes, one column that fits a phone, no outside resource."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #56606b; --grid: #dde2e8; --band: #f1f4f7; --card: #f6f8fa;
  --a: #0b63b0; --b: #b0520a; --c: #0a7a55; --all: #1b1f24; --hostile: #a8195b; --limit: #1b1f24;
  --held: #0a6b3f; --failed: #b3142b; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --ink: #e8ecf0; --soft: #a4afba; --grid: #333a42; --band: #1d2228; --card: #1d2228;
  --a: #6db6ff; --b: #ffab5e; --c: #4fd6a5; --all: #e8ecf0; --hostile: #ff7ab5; --limit: #e8ecf0;
  --held: #5fdca0; --failed: #ff8c97; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 43rem; background: var(--paper); color:
  var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .4rem; }
p { margin: .5rem 0; }
.soft { color: var(--soft); font-size: .92rem; }
.verdict { padding: .8rem 1rem; border-left: .35rem solid var(--held); background: var(--card); margin: 1rem
  0; }
.verdict.failed { border-color: var(--failed); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.2rem, 1fr)); gap: .6rem; margin:
  1rem 0;
  padding: 0; list-style: none; }
.tiles li { background: var(--card); padding: .6rem .8rem; }
.tiles b { display: block; font-size: 1.45rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; }
figcaption { color: var(--soft); font-size: .92rem; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; margin: .4rem 0; list-style: none;
  font-size: .92rem; }
.swatch { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--ink); font-size: 10.5px; }
svg .small { font-size: 9.5px; fill: var(--soft); }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
.grid { stroke: var(--grid); stroke-width: .7; } .axis { stroke: var(--soft); stroke-width: 1; }
.band { fill: var(--band); }
.whisker { fill: none; stroke: var(--ink); stroke-width: 1; }
.halo { fill: none; stroke: var(--paper); stroke-width: 3; }
.line { fill: none; stroke: var(--all); stroke-width: 1.6; }
.limit { fill: none; stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 5 3; }
.dot { fill-opacity: .55; }
.a { fill: var(--a); background: var(--a); } .b { fill: var(--b); background: var(--b); }
.c { fill: var(--c); background: var(--c); } .all { fill: var(--all); background: var(--all); }
.hostile { fill: var(--hostile); background: var(--hostile); }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--grid);
  vertical-align: top; }
td.number, th.number { text-align: right; }
td.number { white-space: nowrap; }
details { margin: .6rem 0; } summary { cursor: pointer; }
.held { color: var(--held); font-weight: 600; } .fail { color: var(--failed); font-weight: 700; }
code { font-size: .9em; overflow-wrap: anywhere; }
"""
