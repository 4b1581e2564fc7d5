"""The page of a fleet: the fabric drawn by racks and rails with every result in it, a table, and what to do next.

No colour says anything alone: each state has a sign and a word too. The colours are those of Okabe and Ito, which
people with any usual colour blindness tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.base.page import document, escaped
from busbw.fleet.fabric import Fabric, expand
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.show import NEXT, amount, exclude_lines, nodes_to_exclude, summary
from busbw.fleet.verdict import Verdict

CELL = 14  # pixels of one node on one rail
MOST_A_ROW = 64  # nodes of a rack side by side
SHOWN = 500  # faults in the table

_STYLE = """
:root{--ground:#fff;--text:#1b1f24;--soft:#57606a;--line:#d5dae0;--good:#cfe3f3;--slow:#d55e00;--broken:#000;
--unclear:#b98a00;--unseen:#fff;--on-slow:#fff;--on-broken:#fff}
@media(prefers-color-scheme:dark){:root{color-scheme:dark;--ground:#14171b;--text:#e8eaed;--soft:#a3acb7;--line:#3a414a;
--good:#27435c;--slow:#e8804a;--broken:#fff;--unclear:#e6b800;--unseen:#14171b;--on-slow:#000;--on-broken:#000}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:20px clamp(12px,2.5vw,40px);max-width:1500px;
color:var(--text);background:var(--ground);overflow-wrap:anywhere}
h1{font-size:22px;line-height:1.3;margin:0 0 8px}h2{font-size:16px;margin:28px 0 8px}.soft{color:var(--soft)}
.racks{display:flex;flex-wrap:wrap;gap:16px 24px}figure{margin:0;max-width:100%}figcaption{font-size:13px}
svg{max-width:100%;height:auto;display:block}rect{stroke:var(--line)}svg text{font:10px system-ui,sans-serif}
.good{fill:var(--good)}.slow{fill:var(--slow)}.broken{fill:var(--broken)}.unclear{fill:var(--unclear)}
.unseen{fill:var(--unseen)}text.rail{fill:var(--soft)}text.slow,text.unclear{fill:var(--on-slow)}
text.broken{fill:var(--on-broken)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
td,th{overflow-wrap:normal}td.why{min-width:22ch}th{color:var(--soft)}td.number{text-align:right;white-space:nowrap}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;padding:0;list-style:none;font-size:14px}
.legend svg{display:inline-block;vertical-align:-2px}
pre{white-space:pre-wrap;font-size:13px}
@media(max-width:600px){table{font-size:12px}th,td{padding-right:8px}}
"""
SIGNS = {"good": "", "slow": "/", "broken": "x", "unclear": "?", "unseen": ""}
WORDS = {"good": "good", "slow": "slow", "broken": "does not work", "unclear": "one of several, or what they share",
         "unseen": "not measured"}  # fmt: skip


def page(fabric: Fabric, known: Knowledge, verdicts: Sequence[Verdict], options: Options) -> str:
    """The whole page; it loads nothing and runs nothing."""
    title = f"busbw fleet: {len(verdicts)} faults" if verdicts else "busbw fleet: no fault"
    body = f"""<h1>{escaped(summary(fabric, known, verdicts, options))}</h1>
<h2>Faults, worst first</h2>
{_table(verdicts)}
<h2>What to do next</h2>
{_next(verdicts)}
<h2>The fabric</h2>
<p class="soft">A block is a rack (leaf), those with a fault first; a column a node, a line a rail.
The line "in" is the node's inside; the switches of the rack stand on the right.</p>
{_legend()}
{_spines(fabric, verdicts)}
<div class="racks">
{"".join(_racks(fabric, _Seen(fabric, known, verdicts)))}
</div>
<h2>Nodes to leave out</h2>
{_exclude(fabric, verdicts)}"""
    return document(title, _STYLE, body)


class _Seen:
    """The state of each place, and what is said of it."""

    def __init__(self, fabric: Fabric, known: Knowledge, verdicts: Sequence[Verdict]) -> None:
        self.rails = fabric.rails
        self.of: dict[tuple[str, str], list[Verdict]] = {}
        for verdict in verdicts:
            for place in _places(verdict):
                self.of.setdefault((place, _line(verdict)), []).append(verdict)
        self.measured = {(node, "in" if kind == "inside" else key[2])
                         for kind, found in known.found.items() for key in found for node in key[1]}  # fmt: skip

    def state(self, place: str, line: str, *, switch: bool = False) -> tuple[str, str]:
        """State and words."""
        found = self.of.get((place, line), [])
        if line != "in" and not switch and any(v.kind == "broken" for v in self.of.get((place, "in"), [])):
            return "broken", f"{place} {line}: the node is broken"
        if not found:
            state = "good" if switch or (place, line) in self.measured else "unseen"
            return state, f"{place} {line}: {WORDS[state]}"
        said = "; ".join(f"{v.name} {amount(v)}" for v in found)
        worst = max(found, key=lambda v: v.loss)
        return ("unclear" if worst.kind in {"either", "shared"} else "broken" if worst.loss >= 1 else "slow"), said


def _places(verdict: Verdict) -> list[str]:
    if verdict.kind == "either":
        return [one.partition(" ")[2] for one in verdict.place.split(" or ")]
    if verdict.kind == "shared" or (verdict.kind == "level" and "[" in verdict.place):
        return list(expand(verdict.place))
    return [verdict.place]


def _line(verdict: Verdict) -> str:
    channel = verdict.channel
    if channel.startswith(("pcie", "nic")):
        return "rail" + channel.removeprefix("pcie").removeprefix("nic")
    channel = channel.replace("latency", "rail")
    return channel if channel.startswith("rail") else "in"


def _racks(fabric: Fabric, seen: _Seen) -> Iterator[str]:
    """Racks with a fault first."""
    places = {place for place, _ in seen.of}
    racks = fabric.groups(MOST_A_ROW).items()
    for pod, nodes in sorted(racks, key=lambda each: places.isdisjoint((each[0], *each[1]))):
        yield _rack(pod, nodes, seen)


def _rack(pod: str, nodes: Sequence[str], seen: _Seen) -> str:
    lines = ["in", *(f"rail{rail}" for rail in range(seen.rails))]
    left, width, height = 42, 42 + CELL * len(nodes) + 30, CELL * len(lines)
    cells = []
    for row, line in enumerate(lines):
        y = CELL * row
        label = line if line == "in" else f"rail {line[4:]}"
        cells.append(f'<text class="rail" x="0" y="{y + 11}">{label}</text>')
        for column, node in enumerate(nodes):
            cells.append(_cell(left + CELL * column, y, *seen.state(node, line)))
        if pod.strip() and line != "in" and not pod.startswith(" "):
            cells.append(_cell(left + CELL * len(nodes) + 12, y, *seen.state(pod, line, switch=True)))
    name = pod if pod and not pod.startswith(" ") else "nodes of no rack"
    said = escaped(f"{name}: {nodes[0]} to {nodes[-1]}, {len(nodes)} nodes")
    return (f'<figure><figcaption>{said}</figcaption><svg role="img" aria-label="{said}" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}">{"".join(cells)}</svg></figure>\n')  # fmt: skip


def _cell(x: int, y: int, state: str, said: str) -> str:
    sign = SIGNS[state]
    box = f'<rect class="{state}" x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"/>'
    if state in {"good", "unseen"}:
        return box
    mark = f'<text class="{state}" x="{x + 6}" y="{y + 10}" text-anchor="middle">{sign}</text>'
    return f"<g><title>{escaped(said)}</title>{box}{mark}</g>"


def _spines(fabric: Fabric, verdicts: Sequence[Verdict]) -> str:
    if len(fabric.pods()) < 2:
        return ""
    slow = [f"{v.channel.replace('rail', 'rail ')}: a{' second' if v.place else ''} spine {amount(v)}"
            for v in verdicts if v.kind == "spine"]  # fmt: skip
    return f"<p>Spines: {escaped('; '.join(slow) if slow else 'no fault seen on any rail')}.</p>"


def _legend() -> str:
    boxes = "".join(
        f'<li><svg width="{CELL}" height="{CELL}" aria-hidden="true">{_cell(0, 0, state, word)}</svg> {word}</li>'
        for state, word in WORDS.items()
    )
    return f'<ul class="legend">{boxes}</ul>'


def _table(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return "<p>None.</p>"
    reasons = any(verdict.runner_up or verdict.reason for verdict in verdicts[:SHOWN])
    rows = "".join(_row(verdict, reasons=reasons) for verdict in verdicts[:SHOWN])
    more = f"<p>{len(verdicts) - SHOWN} more are left out here.</p>" if len(verdicts) > SHOWN else ""
    head = f"<tr><th>where<th>what<th>channel<th>slower by<th>95 % interval{'<th>or, reason' if reasons else ''}</tr>"
    return f'<div class="wide"><table>{head}{rows}</table></div>{more}'


def _row(v: Verdict, *, reasons: bool) -> str:
    low, high = 100 * max(0.0, v.loss - 1.96 * v.error), 100 * min(1.0, v.loss + 1.96 * v.error)
    lost = "does not work" if v.loss >= 1 else f"{100 * v.loss:.1f} %"
    between = "" if v.loss >= 1 else f"{low:.1f} to {high:.1f} %"
    cells = "".join(f"<td>{escaped(word)}" for word in (v.place or "spines", v.kind, v.channel or "all"))
    why = f'<td class="why">{escaped(v.runner_up or v.reason)}' if reasons else ""
    return f'<tr>{cells}<td class="number">{lost}<td class="number">{between}{why}</tr>'


def _next(verdicts: Sequence[Verdict]) -> str:
    kinds = dict.fromkeys(v.kind for v in verdicts)
    items = "".join(f"<li><b>{kind}</b>: {escaped(NEXT[kind])}</li>" for kind in kinds)
    return f"<ul>{items}</ul>" if items else "<p>Start the job.</p>"


def _exclude(fabric: Fabric, verdicts: Sequence[Verdict]) -> str:
    excluded = nodes_to_exclude(fabric, verdicts)
    if not excluded:
        return "<p>None.</p>"
    job, drained = (_text_lines(exclude_lines(excluded, fabric, words)) for words in ("srun", "slurm"))
    shown = f"<p>For one job, srun and sbatch take</p><pre>{job}</pre>"
    return f"{shown}<p>An operator drains them with</p><pre>{drained}</pre>"


def _text_lines(lines: Iterator[str]) -> str:
    return "\n".join(escaped(line) for line in lines)
