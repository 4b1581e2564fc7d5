"""Rows of `nvidia-smi --query-gpu=... --format=csv` and of `nvidia-smi dmon`, spelled out: names, and what differs.

Beside the rows of other GPUs that do the same work a row tells a fault: a clock that is held down, a link with fewer
lanes, a lowered limit of power. By itself it does where it holds both sides: reasons and clocks, a limit and its
default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

SPELLED = "nvidia-smi says "
_COLUMN = re.compile(r"[a-z][a-z0-9_]{1,40}(?:\.[a-z0-9_]{1,40}){0,5}(?: \[[\w/% ]{1,12}\])?")
_ASKED = re.compile(
    r"(?:clocks_\w+_reasons|remapped_rows|retired_pages|ecc|pcie|fabric|clocks|power|temperature|memory|utilization)\."
)
_COMMAND = re.compile(r"nvidia-smi\b.{0,80}--query-gpu=(?P<names>[a-z0-9_.,]{3,1200})")
_APART = re.compile(
    r"[\s#(\[*-]{0,8}(?:(?:\w{2,12} ){0,2}(?:columns?|cols|fields?|headers?|order)(?: are| is)? ?[:=]|(?<=[#(])) {0,4}"
    r"(?P<names>[a-z][a-z0-9_.,% \[\]/]{8,1200}?)\)?\.?\s{0,4}"
)
"""Names of columns as somebody wrote them beside rows that have no head."""
_QUERY = re.compile(r"\bnvidia-smi\b.{0,40} --query-[a-z-]{2,20}=")
_SHELL = re.compile(
    r"(?:\([\w.-]{1,40}\) )?(?:\[?[\w.-]{1,32}@[A-Za-z][\w.-]{0,60}[^\n$#]{0,80}[$#]|[A-Za-z][\w.-]{0,60}(?: ?\$|#)) "
    r"(?=(?:sudo )?(?:watch [^\n]{0,20})?nvidia-smi\b)"
)
_PROCESSES = "--query-compute-apps="
_COUNTED, _COUNT = "uniq -c", re.compile(r"\A\s{0,12}\d{1,7} +(?=\S)")
_FAILS = re.compile(r"fail|error|timed|killed|not found|return", re.IGNORECASE)
_DMON = re.compile(r"#\s*gpu(?P<names>(?:\s+[a-z]{2,8}){2,24})\s*$")
_OF_HOST = re.compile(r"\s{0,6}(?:[A-Za-z][\w.-]{0,80}|\d{1,6}): (?=\S)")
"""What pdsh, clush and `srun --label` put before each line: the host, or the task."""
_RULE = re.compile(r"[-=\s]{0,120}")
_BLOCK = re.compile(
    r"(?:[-=#>*]{1,20} ?)?(?P<host>[A-Za-z][\w.-]{0,80}(?:\[[\d,-]{1,60}\])?)"
    r"(?: \| (?:CHANGED|SUCCESS)(?: \| rc=0)?(?: >>)?|:| ?[-=<]{1,20})?\s{0,4}"
)
"""The host as clush, dshbak, ansible or a loop of a shell writes it over its rows."""
_LIST, _MOST_MEMBERS = re.compile(r"\[(?P<list>[\d,-]{1,60})\]"), 64
_MOST_COLUMNS, _FEWEST, _MOST_ROWS, _FEW_LINES = 64, 3, 4096, 3
_NUMBER = re.compile(r"-?(\d{1,6}(?:\.\d{1,3})?)(?: (?:MHz|W|%|C))?")
_LOW, _IDLE_MHz, _BUSY_PERCENT = 0.67, 400.0, 50.0
"""Of the others' clock or limit; below these MHz a GPU may rest; of the time that a GPU works in a job."""
_LOW_SETTING = 0.9
"""Of a clock that somebody set: GPUs that do the same work have the same."""
_LOW_OF_TWO = 0.5
"""Of the clock set for the one other GPU: two GPUs may be of different kinds."""
_LOW_OF_OWN, _RESTS = 0.5, 0x1
"""Of its own highest clock; the reason that a GPU without work gives."""
_BY_HAND = 0x2
_REASONS = (
    (0x8, "HW Slowdown"),
    (0x20, "SW Thermal Slowdown"),
    (0x40, "HW Thermal Slowdown"),
    (0x80, "HW Power Brake"),
)
"""Bits of the mask of reasons, with nvidia-smi's own words for them (nvml.h: nvmlClocksEventReason)."""
_MASK = re.compile(r"0x([0-9a-fA-F]{1,16})")
_QUIET = re.compile(r"(?:remapped_rows|retired_pages|ecc\.errors)\.\S{3,60}")
_NOTHING = frozenset({"No", "0", "N/A", "[N/A]", "[Not Supported]", "Not Active"})
"""What cells say of errors that did not happen: the column's name alone tells of none."""
_ALIASES = {
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.current.sm": "clocks.sm",
    "clocks.current.graphics": "clocks.sm",
    "clocks.gr": "clocks.sm",
    "clocks.max.graphics": "clocks.max.sm",
    "clocks.max.gr": "clocks.max.sm",
    "clocks.default_applications.gr": "clocks.default_applications.graphics",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "clocks_throttle_reasons.applications_clocks_setting": "clocks_event_reasons.applications_clocks_setting",
    "pclk": "clocks.sm",
    "sm": "utilization.gpu",
    "gtemp": "temperature.gpu",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "enforced.power.limit": "power.limit",
}


_OF_DMON = ("clocks.sm", "temperature.gpu")
"""What a row of `nvidia-smi dmon` tells besides of a GPU that stands apart."""


@dataclass
class _Table:
    names: list[str]
    is_dmon: bool = False
    is_counted: bool = False
    """Whether `uniq -c` puts before each row how often it came."""
    host: str = ""
    """Whose rows follow, where hosts stand over their rows."""
    rows: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)


def spelled(lines: Sequence[str]) -> list[str]:
    """The lines, each row of a table of GPUs with the names of its columns, and with what sets it apart."""
    said = list(lines)
    table: _Table | None = None
    for at, line in enumerate(lines):
        begun = _head(line)
        if begun is not None and table is not None and _goes_on(table, begun, line):
            table.host = _host(line) or table.host
            said[at] = ""
            continue
        asks = _QUERY.search(line) is not None
        if (begun is not None and not begun.is_dmon) or (asks and _PROCESSES not in line and not _FAILS.search(line)):
            said[at] = _prompt(line)  # names of columns tell of nothing that happened
        if begun is None and table is not None and asks:
            # Rows below it are of another question.
            _spell(table, said)
            table = None
        if begun is None and table is not None:
            row = _row(table, line)
            if row is not None and len(table.rows) < _MOST_ROWS:
                table.rows.append((at, _host(line) or table.host, row))
                continue
            if row is None and (host := _begins(table, lines, at)) is not None:
                table.host = host or table.host
                continue
            if table.is_dmon and line.startswith("#"):
                continue  # units, and the head once more on each page
        if table is not None and (begun is None or not table.is_dmon or begun.names != table.names):
            _spell(table, said)
            table = begun
        elif begun is not None and table is None:
            table = begun
        if table is begun and begun is not None:
            _place(begun, lines, said, at)
    if table is not None:
        _spell(table, said)
    return said


def _prompt(line: str) -> str:
    """What tells whose output follows: the shell's prompt, with the bare name of the command."""
    found = _SHELL.match(line)
    return f"{found[0]}nvidia-smi" if found else ""


def _head(line: str) -> _Table | None:
    """The table that begins behind that line."""
    line = line[len(_host(line)) :]
    if "," in line and (apart := _APART.fullmatch(line)):
        line = apart["names"]
    if "," in line:
        cells = [each.strip() for each in line.split(",", _MOST_COLUMNS)]
        if len(cells) > 1 and all(map(_COLUMN.fullmatch, cells)) and any(map(_ASKED.match, cells)):
            return _Table([each.partition(" ")[0] for each in cells])
        if "noheader" in line and (found := _COMMAND.search(line)):
            names = found["names"].strip(",").split(",")
            return _Table(names, is_counted=_COUNTED in line) if len(names) > 1 else None
    elif "gpu" in line and (found := _DMON.match(line)):
        return _Table(["index", *found["names"].split()], is_dmon=True)
    return None


def _begins(table: _Table, lines: Sequence[str], at: int) -> str | None:
    """The host over its rows, "" of a rule around it; None where the line is neither, or no row follows."""
    line = lines[at]
    host = _of_block(line)
    if table.is_dmon or not line.strip() or not (host or _RULE.fullmatch(line)):
        return None
    below = _below(table, lines, at)
    return None if below is None or _host(lines[below]) else host


def _of_block(line: str) -> str:
    """The host that such a line names, as rows have it before them; "" for none."""
    found = _BLOCK.fullmatch(line)
    # A word alone may be anything; hosts have numbers, or marks around them.
    sure = found is not None and (found["host"] != line.strip() or any(map(str.isdecimal, found["host"])))
    return f"{found['host']}: " if found is not None and sure else ""


def _over(lines: Sequence[str], at: int) -> str:
    """The host that stands over the head of a table."""
    for line in reversed(lines[max(0, at - _FEW_LINES) : at]):
        if (host := _of_block(line)) or not _RULE.fullmatch(line):
            return host
    return ""


def _place(table: _Table, lines: Sequence[str], said: list[str], at: int) -> None:
    """The table gets the host over its head, and rows that stand above where none follow."""
    table.host = _over(lines, at)
    if _below(table, lines, at) is None:
        _take_above(table, lines, said, at)


def _goes_on(table: _Table, begun: _Table, line: str) -> bool:
    """Whether the same head stands over the rows of a further host."""
    host = _host(line) or table.host
    return (
        not begun.is_dmon and begun.names == table.names and bool(host) and all(host != who for _, who, _ in table.rows)
    )


def _below(table: _Table, lines: Sequence[str], at: int) -> int | None:
    """Where the next row stands below that line, with nothing but a host or rules between; None without one."""
    for number, line in enumerate(lines[at + 1 : at + 1 + _FEW_LINES], at + 1):
        if _row(table, line) is not None:
            return number
        if _of_block(line) or _RULE.fullmatch(line):
            continue
        head = _head(line)
        if head is None or head.names != table.names:
            return None
    return None


def _take_above(table: _Table, lines: Sequence[str], said: list[str], at: int) -> None:
    """Rows that stand above the names of their columns, where no other table took them."""
    number = at - 1
    while number >= 0 and at - number < _MOST_ROWS and said[number] == lines[number]:
        row = _row(table, lines[number])
        if row is not None and not _fits(row):
            break
        if row is not None:
            table.rows.append((number, _host(lines[number]), row))
        elif table.rows or not _RULE.fullmatch(lines[number]):
            break
        number -= 1
    table.rows.reverse()


def _fits(row: Mapping[str, str]) -> bool:
    """Whether cells are what their names say: a number of GPU, figures with units."""
    return row.get("index", "0").isdecimal() and all(
        cell in _NOTHING or _NUMBER.fullmatch(cell) is not None
        for name, cell in row.items()
        if name.startswith(("power.", "clocks.", "utilization.", "temperature."))
    )


def _host(line: str) -> str:
    """What stands before a row of commas: the host or task that it comes from."""
    found = _OF_HOST.match(line) if "," in line else None
    return found[0] if found else ""


def _row(table: _Table, line: str) -> dict[str, str] | None:
    """The cells of a row by their names; None where the line is none."""
    line = line if table.is_dmon else line[len(_host(line)) :]
    if table.is_counted:
        line = _COUNT.sub("", line)
    cells = line.split() if table.is_dmon else [each.strip() for each in line.split(",", _MOST_COLUMNS)]
    if len(cells) != len(table.names) or (table.is_dmon and not cells[0].isdecimal()):
        return None
    return dict(zip(table.names, cells, strict=True))


def _spell(table: _Table, said: list[str]) -> None:
    known = [{_ALIASES.get(name, name): cell for name, cell in row.items()} for _, _, row in table.rows]
    # Samples over time repeat each GPU: the last look counts.
    hosts = [host for _, host, _ in table.rows]
    many = {host: _members(host) for host in hosts}
    latest = {(host, row.get("index", str(at))): row for at, (host, row) in enumerate(zip(hosts, known, strict=True))}
    for (at, host, row), mine in zip(table.rows, known, strict=True):
        who = f"of GPU {row['index']}: " if row.get("index", "").isdecimal() else ""
        home = [each for (of, _), each in latest.items() if of == host and each is not mine]
        last = latest.get((host, mine.get("index", ""))) is mine or "index" not in mine
        away = [each for (of, _), each in latest.items() if of != host for _ in range(many[of])]
        apart = ", ".join(filter(None, (_by_itself(mine), _apart(mine, home, away)))) if last else ""
        if table.is_dmon:
            known_of = ", ".join(f"{name}: {mine[name]}" for name in _OF_DMON if name in mine)
            said[at] = f"{SPELLED}{who}{known_of}, {apart}" if apart else said[at]
            continue
        cells = ", ".join(
            f"{name}: {cell}" for name, cell in row.items() if cell not in _NOTHING or not _QUIET.fullmatch(name)
        )
        said[at] = f"{host}{SPELLED}{who}{cells}{', ' + apart if apart else ''}"


def _members(host: str) -> int:
    """Of how many hosts the rows are: clush and dshbak tell outputs that are alike once, over a list of hosts."""
    found = _LIST.search(host)
    if found is None:
        return 1
    ends = [each.partition("-")[::2] for each in found["list"].split(",")]
    return min(_MOST_MEMBERS, sum(max(1, int(b or a or 0) - int(a or 0) + 1) for a, b in ends))


def _by_itself(mine: Mapping[str, str]) -> str:
    """What a row tells without others, in nvidia-smi's own words or those of signatures."""
    told = [f"{words}: Active" for bit, words in _REASONS if (_mask(mine) or 0) & bit]
    limit, usual = _figure(mine, "power.limit"), _figure(mine, "power.default_limit")
    if limit and usual and limit < usual - 1:
        told.append(f"GPU power is limited to {limit:.0f} W of {usual:.0f} W")
    told.append(_own_clock(mine))
    used, most = _figure(mine, "pcie.link.width.current"), _figure(mine, "pcie.link.width.max")
    if used and most and 2 * used <= most:
        told.append(f"PCIe link width degraded: x{used:.0f} of x{most:.0f}")
    return ", ".join(filter(None, told))


def _own_clock(mine: Mapping[str, str]) -> str:
    """A clock far below the GPU's own highest while it works, for no reason but that somebody set it; else nothing."""
    now, most = _figure(mine, "clocks.sm"), _figure(mine, "clocks.max.sm")
    asked, usual = (_figure(mine, f"clocks.{name}.graphics") for name in ("applications", "default_applications"))
    if asked and usual and asked < _LOW_SETTING * usual:
        return f"GPU clocks are limited to {asked:.0f} MHz of {usual:.0f} MHz: clocks set by hand"
    mask = _mask(mine)
    named = mine.get("clocks_event_reasons.applications_clocks_setting") == "Active"
    if not now or not most or now >= _LOW_OF_OWN * most or (mask is None and not named) or (mask or 0) & _RESTS:
        return ""
    set_low = named or bool((mask or 0) & _BY_HAND)
    if set_low or (mask == 0 and _works(mine) and (_figure(mine, "utilization.gpu") or 0) > _BUSY_PERCENT):
        return f"GPU clocks are limited to {now:.0f} MHz of {most:.0f} MHz: clocks set by hand"
    return ""


def _mask(row: Mapping[str, str]) -> int | None:
    """The reasons that hold the clock down; None where nobody asked, 0 for none."""
    found = _MASK.fullmatch(row.get("clocks_event_reasons.active", ""))
    return int(found[1], 16) if found else None


def _apart(mine: Mapping[str, str], home: Sequence[Mapping[str, str]], away: Sequence[Mapping[str, str]]) -> str:
    """What sets a GPU, or all of its host, apart from others that work as it does, in the words of signatures.

    `home` are the other GPUs of its host, `away` those of other hosts.
    """
    told = []
    # GPUs of another model have other clocks and limits.
    home, away = ([each for each in rows if each.get("name") == mine.get("name")] for rows in (home, away))
    for name, words, needs_work, share in (
        ("clocks.sm", "GPU clocks are limited to {:.0f} MHz, others run at {:.0f} MHz", True, _LOW),
        (
            *(
                "clocks.applications.graphics",
                "GPU clocks are limited to {:.0f} MHz by hand, those of others to {:.0f} MHz",
            ),
            *(False, _LOW_SETTING),
        ),
        ("power.limit", "GPU power is limited to {:.0f} W, others to {:.0f} W", False, _LOW),
        ("pcie.link.width.current", "PCIe link width degraded: x{:.0f}, others x{:.0f}", False, _LOW),
        ("pcie.link.gen.current", "PCIe link generation degraded: {:.0f}, others {:.0f}", True, _LOW),
    ):
        own = _figure(mine, name)
        if own is None or (needs_work and not _works(mine)):
            continue
        at_home, elsewhere = _figures(home, name), _figures(away, name)
        usual = _usual_above(own, [*at_home, *elsewhere], share)
        if usual is None and all(abs(each - own) <= 0.1 * own for each in at_home):
            # A host whose GPUs are all alike is compared with the other hosts.
            usual = _usual_above(own, elsewhere, share)
        if usual is not None:
            told.append(words.format(own, usual))
    return ", ".join(told)


def _usual_above(own: float, figures: Sequence[float], share: float) -> float | None:
    """What most of the others have, where that one is far below it."""
    if not figures or (len(figures) + 1 < _FEWEST and share != _LOW_SETTING):
        return None
    low = share if len(figures) + 1 >= _FEWEST else _LOW_OF_TWO
    # Most of the others agree: GPUs that each do something else tell nothing of this one.
    usual = median(figures)
    alike = sum(figure >= 0.9 * usual for figure in figures)
    return usual if 0 < own <= low * usual and 4 * alike >= 3 * len(figures) else None


def _figures(rows: Sequence[Mapping[str, str]], name: str) -> list[float]:
    return [figure for each in rows if (figure := _figure(each, name)) is not None]


def _works(row: Mapping[str, str]) -> bool:
    """Whether the GPU is at work, as far as its row tells."""
    load, state = _figure(row, "utilization.gpu"), row.get("pstate", "")
    if load is not None:
        return load > _BUSY_PERCENT
    if state:
        return state == "P0"
    return (_figure(row, "clocks.sm") or 0.0) >= _IDLE_MHz


def _figure(row: Mapping[str, str], name: str) -> float | None:
    found = _NUMBER.fullmatch(row.get(name, ""))
    return float(found[1]) if found else None
