"""The rows of `nvidia-smi topo -m` as words: wherever lines were wrapped, cut, quoted or lost their tabs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from busbw.base.errors import UserError

MAX_DEVICES = 256
CELL = re.compile(r"X|PIX|PXB|PHB|NODE|SYS|SOC|NV(\d{1,3})")
_GPU = re.compile(r"GPU\d{1,3}")
_NAME = re.compile(r"[A-Za-z]\w{0,63}")
_HEAD = re.compile(r"(?:^|\s)GPU0\s+(?:[A-Za-z]\w*\d\w*\s+)*(?:[A-Za-z]\w*\d\w*|CPU|NUMA)(?:\s|$)|^\s+GPU0\s*$")
_TAIL = frozenset({"CPU", "NUMA", "GPU", "Affinity"})
_PEER = re.compile(r"OK|NS|CNS|GNS|TNS|DR|NOK|U")
_STOP = re.compile(r"\s*(?:NIC )?Legend|\s*\$ ")
_WIDTHS = (60, 400)


@dataclass(frozen=True, slots=True)
class Rows:
    """`cells` of each device in the order of `devices`; `rest` is what stands behind a row; `lines` where it stands."""

    devices: tuple[str, ...]
    cells: dict[str, list[str]]
    rest: dict[str, list[str]]
    lines: dict[str, int]
    columns: tuple[str, ...]
    """The words of the heading behind the devices: CPU Affinity NUMA Affinity GPU NUMA ID."""


def read_rows(lines: Sequence[str], source: str) -> Rows:
    """The first matrix of paths; UserError where there is none, or one that is cut in a row."""
    starts = [i for i, line in enumerate(lines) if _HEAD.search(line) and not _is_row(line)]
    if not starts:
        raise UserError(f"{source} shows no matrix of `nvidia-smi topo -m`: no line begins with GPU0 as a heading")
    peers = 0
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = _block(lines, start, end)
        if _shows_peers(block):
            peers += 1
            continue
        try:
            return _rows(block, source)
        except UserError:
            joined = _unwrapped(block)
            if joined is None:
                raise
            # Where that does not help, the first message is the one that names what is in the file.
            with suppress(UserError):
                return _rows(joined, source)
            raise
    raise UserError(
        f"{source} is `nvidia-smi topo -p2p`: it says which GPUs may reach each other, not how; busbw reads "
        "`nvidia-smi topo -m`"
    )


def _block(lines: Sequence[str], start: int, end: int) -> list[tuple[int, str]]:
    block: list[tuple[int, str]] = []
    for number in range(start, end):
        if number > start and _STOP.match(lines[number]):
            break
        block.append((number + 1, lines[number]))
    return block


def _is_row(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and words[0] == "GPU0" and (CELL.fullmatch(words[1]) or _PEER.fullmatch(words[1])) is not None


def _shows_peers(block: Sequence[tuple[int, str]]) -> bool:
    """A matrix of `topo -p2p`: its cells say OK or why not."""
    rows = [words for _, line in block if len(words := line.split()) > 2 and words[0] in {"GPU0", "GPU1"}]
    return any(_PEER.fullmatch(word) for words in rows for word in words[1:3])


def _words(block: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in block:
        for word in line.split():
            yield number, word


def _rows(block: Sequence[tuple[int, str]], source: str) -> Rows:
    words = list(_words(block))
    at = next((i for i, (_, word) in enumerate(words) if word == "GPU0"), 0)
    devices, columns, at = _heading(words, at)
    if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
        raise UserError(f"{source}:{words[0][0]}: {len(devices)} columns, or two of one name; is it one machine?")
    known = set(devices)
    found = Rows(tuple(devices), {}, {}, {}, tuple(columns))
    last = ""
    while at < len(words):
        number, word = words[at]
        following = words[at + 1][1] if at + 1 < len(words) else ""
        if word not in known and _GPU.fullmatch(word) and CELL.fullmatch(following):
            raise UserError(f"{source}:{number}: {word} has a row and no column; is the matrix cut off at the right?")
        if word not in known or word in found.cells or not _begins(following):
            if last:
                found.rest[last].append(word)
            at += 1
            continue
        cells = [each for _, each in words[at + 1 : at + 1 + len(devices)]]
        wrong = next((each for each in cells if not CELL.fullmatch(each)), None)
        if len(cells) < len(devices) or wrong is not None:
            what = f"{wrong[:16]!r} in it" if wrong is not None else f"{len(cells)} cells for {len(devices)} columns"
            raise UserError(f"{source}:{number}: the row of {word} has {what}, and not one of X NV# PIX ... per column")
        found.cells[word], found.rest[word], found.lines[word] = cells, [], number
        last = word
        at += 1 + len(devices)
    return found


def _begins(word: str) -> bool:
    """Whether a word may be the first cell of a row: anything but a name of the legend or another device."""
    return not word or CELL.fullmatch(word) is not None or not re.fullmatch(r"[A-Za-z]\w*\d\w*:?|Affinity|=", word)


def _heading(words: Sequence[tuple[int, str]], at: int) -> tuple[list[str], list[str], int]:
    """The devices of the heading, the words behind them, and where the rows begin."""
    devices: list[str] = []
    columns: list[str] = []
    while at < len(words):
        word = words[at][1]
        following = words[at + 1][1] if at + 1 < len(words) else ""
        if word in devices and following and _begins(following):
            break
        if word in _TAIL or columns:
            if columns and word not in _TAIL and word != "ID":
                break
            columns.append(word)
        elif _NAME.fullmatch(word):
            devices.append(word)
        else:
            break
        at += 1
    return devices, columns, at


def _unwrapped(block: Sequence[tuple[int, str]]) -> list[tuple[int, str]] | None:
    """The lines of a terminal that cut each at one width, joined again; None where no such width is seen."""
    width = max((len(line) for _, line in block), default=0)
    if not _WIDTHS[0] <= width <= _WIDTHS[1] or sum(len(line) == width for _, line in block) < 2:
        return None
    joined: list[tuple[int, str]] = []
    whole = True
    for number, line in block:
        if whole or not joined:
            joined.append((number, line))
        else:
            joined[-1] = (joined[-1][0], joined[-1][1] + line)
        whole = len(line) < width
    return joined
