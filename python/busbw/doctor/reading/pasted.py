"""A log as somebody pasted it: lines that a terminal broke, HTML's escapes and lines within a string, put right."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import suppress

from busbw.doctor.lines.by_design import without_make
from busbw.doctor.reading.answers import told
from busbw.doctor.reading.articles import without_articles
from busbw.doctor.reading.counter_rows import with_counters
from busbw.doctor.reading.histories import without_histories
from busbw.doctor.reading.in_front import unwrapped
from busbw.doctor.reading.power import with_low_clocks, without_full_power
from busbw.doctor.reading.power_limits import with_low_limits
from busbw.doctor.reading.smi_rows import spelled
from busbw.doctor.reading.typesetting import without_tex
from busbw.machine.topology.names import takes_bridges

_WIDTHS = frozenset({80, 100, 120, 132, 160, 200})
"""Columns of terminals, of which one full line is enough to tell that lines were broken."""
NARROWEST, WIDEST = 60, 400
_HEAD = re.compile(
    r"\s*(?:$|\[(?!\d{1,3}(?:,\d{1,3}){2,}\])|\((?!errno|most recent|error|code)|[#<|{*>$+]"
    r"|-{2}|={2}(?!\d)|\s{4,}\w[^:]{0,60} {2,}: |\d{4}-\d\d|\d+[:.] |\d{1,3}, |\d+ +\d|[IWEF]\d{4} |[A-Z][a-z]{2} +\d"
    r"|[\w.-]+:\d+:(?:\d+ |\d*:)"
    r"|(?:INFO|WARN|ERROR|DEBUG|CRITICAL|FATAL|Traceback|File |frame #|NCCL |NVRM|kernel:|srun:|mpirun:|slurmstepd:)"
    r"|[\w.]*(?:Error|Exception|Warning)\b)"
)
"""How lines begin that are no rest of another one."""
_ESCAPES = re.compile(r"&(?:lt|gt|quot|#x27|#39);")
_FEW = 3


def restored(text: str) -> list[tuple[int, str]] | None:
    """Its lines with the numbers where they begin; None where the text is as a program wrote it."""
    changed = False
    if _ESCAPES.search(text):
        text, changed = html.unescape(text), True
    said = _of_string(text)
    if said is not None:
        return list(enumerate(spelled(said), 1))  # as the program wrote them: what came first tells causes
    bare = unwrapped(text)
    at = [each.number for each in bare]
    lines = without_tex([each.text for each in bare])
    changed = changed or lines != [line.rstrip("\r") for line in text.split("\n")]
    width = _width(lines)
    if width:
        joined = list(_joined(lines, width))
        rows = spelled([line for _, line in joined])
        return [(at[number - 1], row) for (number, _), row in zip(joined, rows, strict=True)]
    counted = with_counters(without_histories(without_articles(lines)))
    plain = _without_open_bridges(without_make(with_low_limits(with_low_clocks(without_full_power(counted)))))
    shown = spelled(list(told(_with_units(plain))))
    return list(zip(at, shown, strict=True)) if changed or shown != lines else None


def unfolded(text: str) -> str:
    """The text with lines that a terminal broke joined, or that stand in one string apart; each keeps its number."""
    said = _of_string(text)
    if said is not None:
        return "\n".join(said)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    width = _width(lines)
    if not width:
        return text
    kept = [""] * len(lines)
    for number, line in _joined(lines, width):
        kept[number - 1] = line
    return "\n".join(kept)


_BOARD = re.compile(r"\s*GPU \d{1,3}: (.{3,60}) \(UUID")
_OPEN = re.compile(r"\s*Link \d{1,3}: <inactive>\s*$")


def _without_open_bridges(lines: list[str]) -> list[str]:
    """The text of `nvidia-smi nvlink -s` without links that wait for a bridge: no board of that kind uses all."""
    if not any(map(_OPEN.match, lines)):
        return lines
    kept, bridged = list[str](), False
    for line in lines:
        if board := _BOARD.match(line):
            bridged = takes_bridges(board[1])
        kept.append("" if bridged and _OPEN.match(line) else line)
    return kept


_UNIT = re.compile(r"\W{1,3}([\w@.-]{3,80}\.service)(?: - |\s*$)")
_STATE = re.compile(r"\s+Active: (?:failed|inactive|activating)\b")


def _with_units(lines: list[str]) -> list[str]:
    """The text of `systemctl status`, each service's state behind its name."""
    if not any(map(_STATE.match, lines)):
        return lines
    kept, unit = list[str](), ""
    for line in lines:
        if found := _UNIT.match(line):
            unit = found[1]
        kept.append(f"{unit}: {line.strip()}" if unit and _STATE.match(line) else line)
    return kept


def _of_string(text: str) -> list[str] | None:
    """The lines of a log that is one string, or a list of strings; None where it is neither."""
    bare = text.strip()
    if bare.count("\n") > _FEW:
        return None
    if bare.startswith(("[", '"')):
        with suppress(ValueError, RecursionError):
            found = json.loads(bare)
            parts = found if isinstance(found, list) else [found]
            if parts and all(isinstance(each, str) for each in parts):
                return [line.rstrip("\r") for each in parts for line in each.split("\n")]
    quoted = len(bare) > 1 and bare.lstrip("b")[:1] in ("'", '"') and bare[-1] == bare.lstrip("b")[0]
    if not quoted and bare.count("\\n") < _FEW:
        return None
    bare = bare.lstrip("b")[1:-1] if quoted else bare
    return (
        bare.replace("\\r", "")
        .replace("\\t", "\t")
        .replace('\\"', '"')
        .replace("\\'", "'")
        .replace("\\n", "\n")
        .split("\n")
    )


def _width(lines: list[str]) -> int:
    """At how many columns lines were broken; 0 where they were not."""
    width = max(map(len, lines), default=0)
    if not NARROWEST <= width <= WIDEST:
        return 0
    full = [at for at, line in enumerate(lines[:-1]) if len(line) == width and len(set(line)) > _FEW]
    rests = [at for at in full if not _begins(lines[at + 1], lines[at]) and not _are_rows(lines[at], lines[at + 1])]
    enough = len(rests) > 1 or (len(rests) == 1 and width in _WIDTHS)
    return width if enough and 2 * len(rests) > len(full) else 0


_FIRST = re.compile(r"\W{0,8}[A-Za-z][A-Za-z_/.-]+")


def _begins(line: str, before: str) -> bool:
    """Whether it begins as lines do, or with the word that the line before it begins with: steps of equal width do."""
    first = _FIRST.match(line)
    return _HEAD.match(line) is not None or (first is not None and before.startswith(first[0]))


_GAP = re.compile(r"\S {2,}(?=\S)")


def _are_rows(line: str, following: str) -> bool:
    """Whether both are rows of a table: of equal width, since its columns are padded."""
    return all(len(_GAP.findall(each)) >= _FEW for each in (line, following))


def _joined(lines: list[str], width: int) -> Iterator[tuple[int, str]]:
    """Each line with its rests, which follow it as long as lines are full."""
    begun, said = 0, ""
    before = 0
    for number, line in enumerate(lines, 1):
        if before == width and not _begins(line, said):
            said += line
        else:
            if begun:
                yield begun, said
            begun, said = number, line
        before = len(line)
    yield begun, said
