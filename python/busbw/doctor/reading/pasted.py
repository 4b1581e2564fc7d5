"""A log as somebody pasted it: lines that a terminal broke, HTML's escapes and lines within a string, put right."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import suppress

from busbw.doctor.lines.by_design import without_make
from busbw.doctor.reading.answers import told
from busbw.doctor.reading.smi_rows import SPELLED, spelled
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
    lines = [line.rstrip("\r") for line in text.split("\n")]
    width = _width(lines)
    if width:
        return list(_joined(lines, width))
    plain = _without_open_bridges(without_make(_with_low_clocks(_without_full_power(lines))))
    shown = spelled(list(told(_with_units(plain))))
    return list(enumerate(shown, 1)) if changed or shown != lines else None


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


_CAPPED = re.compile(r"\s+SW Power Cap\s*: Active\s*$")
_POWER = re.compile(r"\s+(Current|Default) Power Limit\s*: (\d{2,4}\.\d\d W)")
_POWER_WORD = re.compile(r"\bpower (?:limit|draw|usage)|\d ?W\b", re.IGNORECASE)
_OTHER_REASONS = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")


def _without_full_power(lines: list[str]) -> list[str]:
    """The text of `nvidia-smi -q` without its word for a GPU at its limit, where each limit is the GPU's own.

    That is how healthy GPUs work under full load; a limit that was lowered shows beside its default. A list of all
    reasons without limits (`-d PERFORMANCE`) says the same where no other reason holds.
    """
    if not any(map(_CAPPED.match, lines)):
        return lines
    limits: dict[str, list[str]] = {"Current": [], "Default": []}
    for found in filter(None, map(_POWER.match, lines)):
        limits[found[1]].append(found[2])
    if limits["Default"] or limits["Current"]:
        if limits["Current"] != limits["Default"] and not _is_full(limits["Current"], lines):
            return lines
    elif any(_POWER_WORD.search(line) for line in lines) or not all(
        any(reason in line and line.rstrip().endswith(": Not Active") for line in lines) for reason in _OTHER_REASONS
    ):
        return lines
    return ["" if _CAPPED.match(line) else line for line in lines]


_HIGHEST = "700.00 W"
"""What H100 and H200 of SXM boards draw at most, by their maker; only later GPUs have a higher limit."""
_LATER = re.compile(r"\b(?:G?B[123]00|R[12]00)\b")


def _is_full(current: list[str], lines: list[str]) -> bool:
    """Whether a limit that is shown without its default is the highest that such GPUs have, and nothing else holds."""
    return (
        set(current) == {_HIGHEST}
        and not any("Default Power Limit" in line or _LATER.search(line) for line in lines)
        and all(any(reason in line and ": Not Active" in line for line in lines) for reason in _OTHER_REASONS)
    )


_CLOCKS = re.compile(r"\s{4,8}((?:Max )?Clocks)\s*$")
_SM = re.compile(r"\s{6,12}SM\s*: (\d{2,4}) MHz")
_BY_HAND = re.compile(r"\s+Applications Clocks Setting\s*: Active\s*$")
_LOW = 0.6  # of the highest clock; a GPU that its own default keeps lower stays above


def _with_low_clocks(lines: list[str]) -> list[str]:
    """The text of `nvidia-smi -q`, where a clock set by hand holds a GPU far below its highest, with that in words."""
    if not any(map(_BY_HAND.match, lines)):
        return lines
    kept, section, now, by_hand = list[str](), "", 0, False
    for line in lines:
        kept.append(line)
        if line.startswith("GPU "):
            section, now, by_hand = "", 0, False
        elif _BY_HAND.match(line):
            by_hand = True
        elif found := _CLOCKS.match(line):
            section = found[1]
        elif section and (clock := _SM.match(line)):
            if section == "Max Clocks" and by_hand and 0 < now < _LOW * int(clock[1]):
                kept[-1] = f"{SPELLED}GPU clocks are limited to {now} MHz of {clock[1]} MHz: clocks set by hand"
            now, section = (int(clock[1]) if section == "Clocks" else now), ""
    return kept


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
