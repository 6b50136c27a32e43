"""How the page of ``explain --html`` looks: one style sheet, light and dark."""

from __future__ import annotations

PALETTE = 8
"""Providers that have a colour of their own; later ones share."""

_LIGHT = ("#2f6fdb", "#d9722e", "#138a72", "#a8449b", "#7d8a1f", "#cc3f55", "#6a58d6", "#8a6242")
_DARK = ("#7aa7ff", "#f2a266", "#4fc9ae", "#dc86d0", "#bccb5a", "#f47d8d", "#a99bff", "#cfa37f")


def _colours(values: tuple[str, ...]) -> str:
    return "".join(f".p{index}{{--c:{value}}}" for index, value in enumerate(values))


STYLE = (
    """
:root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--ink:#1b2230;--soft:#5d6879;--faint:#98a2b3;--line:#e2e6ec;
--wash:#eef1f5;--bad:#c0273f;--badwash:#fdecef;--good:#13795b;--warn:#946200;--shadow:0 1px 2px rgba(16,24,40,.06),
0 1px 3px rgba(16,24,40,.08);--on:#fff}
@media (prefers-color-scheme:dark){:root{--bg:#0f131a;--card:#171d27;--ink:#e6ebf3;--soft:#a3aec0;--faint:#6c778a;
--line:#2a3342;--wash:#1f2733;--bad:#ff7d90;--badwash:#3a1a22;--good:#4fd0a5;--warn:#f0bf5e;--shadow:none;--on:#0f131a}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:16px}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1200px;margin:0 auto;padding:36px 24px 72px}
h1{font-size:26px;line-height:1.28;margin:0 0 6px;font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:17px;margin:0;font-weight:650}
.kicker{color:var(--soft);font-size:12px;letter-spacing:.09em;text-transform:uppercase;margin:0 0 8px;font-weight:600}
.ids{color:var(--faint);font-size:12.5px;margin:0;overflow-wrap:anywhere}
.lead{color:var(--soft);margin:2px 0 16px;max-width:84ch;font-size:14px}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;box-shadow:var(--shadow);
padding:20px 22px;margin:18px 0}
code,pre,.mono,svg text.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:12px;margin:22px 0 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 14px;box-shadow:var(--shadow)}
.tile b{display:block;font-size:18px;font-weight:650;line-height:1.25;overflow-wrap:anywhere}
.tile span{color:var(--soft);font-size:12.5px}
.alarm{background:var(--badwash);border:1px solid var(--bad);color:var(--bad);border-radius:12px;padding:11px 16px;
margin:16px 0 0;font-weight:600}
.legend{display:flex;flex-wrap:wrap;gap:6px 18px;margin:0 0 14px;padding:0;list-style:none;color:var(--soft);
font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px;vertical-align:-1px;
background:var(--c,var(--faint))}
.legend i.outer{background:var(--faint)}.legend i.rest{background:var(--wash);border:1px solid var(--line)}
.legend i.k-in{background:var(--soft)}.legend i.k-copy{background:var(--soft);opacity:.42}
.legend i.k-out{background:none;border:1px solid var(--soft)}.legend i.k-bad{background:var(--bad)}
.scroll{overflow-x:auto}
svg{display:block;width:100%;min-width:760px;height:auto}
svg text{fill:var(--ink);font-size:12.5px}
svg .soft{fill:var(--soft)}svg .faint{fill:var(--faint);font-size:11.5px}svg .bad{fill:var(--bad)}
svg .head{font-size:11px;letter-spacing:.08em;fill:var(--soft);font-weight:600;text-transform:uppercase}
svg .who{fill:var(--c);font-weight:650}
svg .grid{stroke:var(--line)}svg .axis{stroke:var(--faint)}
svg .wait{fill:var(--c);opacity:.22}svg .come{fill:var(--c)}svg .stop{fill:var(--card);stroke:var(--bad);stroke-width:2}
svg .done{fill:var(--card);stroke:var(--c);stroke-width:2.5}
svg .link{fill:none;stroke:var(--c);stroke-width:1.7;opacity:.42}
svg .dot{fill:var(--c)}
svg .chip{fill:var(--c);opacity:.16}
svg .box{fill:var(--c);fill-opacity:.13;stroke:var(--c);stroke-opacity:.55}
svg .edge{fill:var(--c)}
svg .text{fill:var(--wash);stroke:var(--line)}
svg a:hover .box{fill-opacity:.3}svg a:hover .link{opacity:1;stroke-width:2.6}svg a:hover .cell{stroke:var(--ink);
stroke-width:1.5}
svg a:focus-visible{outline:2px solid var(--ink)}
svg .num{font-weight:650;text-anchor:middle}
svg .end{text-anchor:end}svg .mid{text-anchor:middle}
svg .cell{fill:var(--c);fill-opacity:.1;stroke:var(--c);stroke-opacity:.5}
svg .cell.in{fill-opacity:1}svg .cell.copy{fill-opacity:.42;stroke-opacity:0}
svg .cell.bad{fill:var(--bad);fill-opacity:.85;stroke:var(--bad)}
svg .rest{fill:var(--wash)}svg .outer{fill:var(--faint)}
details{border-top:1px solid var(--line)}
details.all{border:0;margin-top:14px}
summary{cursor:pointer;list-style:none;padding:8px 4px;border-radius:8px}
summary::-webkit-details-marker{display:none}
summary:hover{background:var(--wash)}
details.all>summary{color:var(--soft);font-weight:600;padding:10px 4px}
details.all>summary::before,.frame>summary::before{content:"▸";color:var(--faint);margin-right:9px;display:inline-block}
details[open].all>summary::before,.frame[open]>summary::before{transform:rotate(90deg)}
.frame>summary{display:grid;grid-template-columns:12px 34px minmax(100px,140px) minmax(0,1fr) auto;gap:12px;
align-items:baseline}
.frame>summary::before{margin:0}
.rank{font-weight:650;text-align:right;font-variant-numeric:tabular-nums}
.who{color:var(--c);font-weight:650;overflow-wrap:anywhere}
.name{min-width:0}.name bdi{display:block;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:13.5px}
.name small bdi{font-size:12.5px;color:var(--soft)}
.fate{font-size:13px;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.fate.out{color:var(--bad)}
.story{padding:4px 4px 16px 70px}
.story:target{background:var(--wash);border-radius:10px}
.story ol{margin:6px 0 12px;padding:0;list-style:none;border-left:2px solid var(--c,var(--line))}
.story li{padding:2px 0 2px 14px;font-size:14px;overflow-wrap:anywhere}
.story li b{display:inline-block;min-width:86px;color:var(--soft);font-weight:500;font-size:12.5px}
.story p{margin:0 0 8px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
pre{margin:0;background:var(--wash);border-radius:10px;padding:12px 14px;font-size:12.5px;line-height:1.5;overflow:auto;
max-height:420px;white-space:pre-wrap;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;color:var(--soft);font-weight:600;font-size:12px;padding:6px 10px;
border-bottom:1px solid var(--line)}
td{padding:7px 10px;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:last-child td{border-bottom:0}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.sum td{font-weight:650}
.agrees{color:var(--good);font-weight:600;white-space:nowrap}.differs{color:var(--bad);font-weight:700}
.unknown{color:var(--warn);font-weight:600;white-space:nowrap}
td .note{display:block;color:var(--soft);font-size:12.5px}td .bad{display:block;color:var(--bad)}
.conflict{margin:0 0 12px;padding:0 0 0 14px;border-left:3px solid var(--warn);list-style:none}
a{color:inherit}
footer{color:var(--faint);font-size:12.5px;margin:26px 4px 0}
@media (max-width:720px){main{padding:20px 12px}.frame>summary{grid-template-columns:14px 34px minmax(0,1fr) auto}
.frame>summary .who{display:none}.story{padding-left:12px}}
@media print{section{break-inside:avoid;box-shadow:none}}
"""
    + _colours(_LIGHT)
    + "@media (prefers-color-scheme:dark){"
    + _colours(_DARK)
    + "}"
)
