"""Clues of errors of a GPU's memory: the one card that its own counters and the kernel's line of the error name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_BUS = r"(?:[0-9a-fA-F]{4,8}:)?(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?"
_BY_KERNEL = re.compile(
    rf"Xid \(PCI:{_BUS}\): (?P<xid>48|94|95)\b,? ?(?:pid=[^,\n]{{1,20}}, name=[^,\n]{{1,40}}, )?"
    r"(?P<what>(?:Contained|Uncontained): \w{1,20}|(?:An uncorrectable )?[Dd]ouble [Bb]it[^\n]{0,30}|DBE[^\n]{0,30})"
)
"""Lines that say where in the card it was; those of other cards tell only which channel was stopped."""
_SPELLED = re.compile(
    rf"^nvidia-smi says of GPU (?P<gpu>\d{{1,3}}): (?P<row>[^\n]{{0,200}}\b{_BUS}[^\n]{{0,400}})$", re.MULTILINE
)
"""A row of `nvidia-smi --query-gpu=... --format=csv`, spelled out (busbw.doctor.reading.pasted)."""
_COLUMN = re.compile(r"\becc\.errors\.uncorrected\.(?P<name>[\w.]{1,40}): (?P<n>[1-9]\d{0,9})\b")
_BOXED = re.compile(
    rf"^\|\s{{1,6}}(?P<gpu>\d{{1,3}})\s[^|\n]{{3,60}}\|\s{{0,4}}{_BUS}\s{{1,4}}\w{{2,4}}\s{{0,4}}\|\s{{1,24}}"
    r"(?P<n>[1-9]\d{0,9})\s{0,4}\|",
    re.MULTILINE,
)
"""A row of nvidia-smi's own table: its last column begins with the uncorrected errors since the driver's start."""
_SECTION = re.compile(rf"^GPU {_BUS}\s*$", re.MULTILINE)
_COUNTED = re.compile(r"^\s{2,30}(?:SRAM|DRAM) Uncorrectable[\w ]{0,12} {1,30}: (?P<n>[1-9]\d{0,9})$", re.MULTILINE)
_RANK = re.compile(r"\[rank ?(?P<rank>\d{1,5})\][^\n]{0,200}uncorrectable ECC error encountered", re.IGNORECASE)
_TIMES = re.compile(r"grep -c [^\n]{0,60}Xid[^\n]{0,60}\b(?:48|94|95)\b[^\n]{0,40}\n(?P<n>[1-9]\d{0,5})$", re.MULTILINE)
_PENDING = re.compile(
    r"Pending {2,30}: Yes|[Rr]emap\w{0,8}[^\n]{0,30}(?:pending|[Ff]ail|Occurred)|\b(?:remapped_rows|retired_pages)\."
)

Named = dict[str, list[tuple[str, Evidence]]]
"""By bus address, what names the card, and the line."""


def one_card(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One card alone that its counters or the kernel's line of an error that ECC could not correct name."""
    if (spent := _spent(texts)) is not None:
        return spent
    if any(_PENDING.search(seen.fact) for seen in finding.evidence):
        return None  # the card's own list says what is to be done
    cards: Named = defaultdict(list)
    for text in texts:
        for hit in _BY_KERNEL.finditer(text.text):
            sign = f"Xid {hit['xid']}, {named(hit['what'], 40)}"
            cards[hit["bus"].lower()].append((sign, text.evidence(hit.start())))
        for card, counted, line in (*_of_table(text), *_of_sections(text)):
            cards[card].append((counted, line))
    if len(cards) != 1:
        return None
    ((bus, signs),) = cards.items()
    said = list(dict.fromkeys(each for each, _ in signs))
    lines = dict(reversed(signs))
    rank = next(((text, found) for text in texts if (found := _RANK.search(text.text))), None)
    own = f"; rank {rank[1]['rank']} fails by it" if rank else ""
    times = next((found["n"] for text in texts for found in _TIMES.finditer(text.text)), "")
    again = f"; the kernel's log has it {times} times" if times and int(times) > 1 else ""
    back = again or _is_old(said)
    returns = "It returns: have the card replaced" if back else "Replace the card if it returns"
    return Sharper(
        f"the GPU at 0000:{bus} has errors of its memory that ECC could not correct "
        f"({'; '.join(said[:3])}){own}{again}",
        f"drain the node and reset that GPU (nvidia-smi -r, or reboot), then start the job again. {returns}; "
        "dcgmi diag -r 3 checks it. What other ranks, NVLinks and NVSwitches report at the same time (peer access, "
        "Xid 137, SXid 12028, Xid 94 of others' channels) follow from it",
        tuple(lines[each] for each in said[:3]),
    )


_ON_HOST = r"^\s{{0,4}}host\s{{1,10}}: (?P<host>[\w.-]{{1,80}})\s*\n\s{{0,4}}rank\s{{1,10}}: {rank} \("
"""How torchrun's summary tells where a rank that failed ran."""


def rank_of_card(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The one rank that met the error, and its host, where no counter names the card."""
    met = {found["rank"]: (text, found) for text in reversed(texts) for found in _RANK.finditer(text.text)}
    if len(met) != 1 or " rank " in finding.title:
        return None
    ((rank, (text, found)),) = met.items()
    words = re.compile(_ON_HOST.format(rank=rank), re.MULTILINE)
    host = next(((each, at) for each in texts if (at := words.search(each.text))), None)
    where = f"the GPU of rank {rank}" + (f" on {named(host[1]['host'])}" if host else "")
    return Sharper(
        f"{finding.title}: {where}",
        f"it is {where}: {finding.fix}. What other ranks report later (timeouts, closed connections) follows from it",
        (text.evidence(found.start()), *((host[0].evidence(host[1].start("host")),) if host else ())),
    )


_SPENT = re.compile(r"^\s{2,30}Remapping Failure Occurred\s{1,30}: Yes\s*$", re.MULTILINE)
_SPARE = re.compile(r"^\s{2,30}Remapping Failure Occurred\s{1,30}: No\s*$", re.MULTILINE)
_NO_ROWS = re.compile(
    rf"Xid \(PCI:{_BUS}\): 64\b,[^\n]{{0,120}}?(?P<what>[Rr]ow [Rr]emapp?\w{{0,4}}[^\n]{{0,120}})$", re.MULTILINE
)
_ROWS = re.compile(r"^\s{2,30}Uncorrectable Error {2,30}: (?P<n>[1-9]\d{0,5})\s*$", re.MULTILINE)
_FAILED = re.compile(r"\bremapped_rows\.failure\w{0,8}: (?:Yes|[1-9])")


def _spent(texts: Sequence[Text]) -> Sharper | None:
    """One card alone whose list, or the kernel's line, says that a row could not be replaced."""
    cards: Named = defaultdict(list)
    good: set[str] = set()
    for text in texts:
        for hit in _NO_ROWS.finditer(text.text):
            cards[hit["bus"].lower()].append(("Xid 64", text.evidence(hit.start())))
        for row in _SPELLED.finditer(text.text):
            if _FAILED.search(row["row"]):
                cards[row["bus"].lower()].append((f"GPU {row['gpu']}: remapping failed", text.evidence(row.start())))
        for bus, begin, end in _sections(text):
            if (found := _SPENT.search(text.text, begin, end)) is None:
                good |= {bus} if _SPARE.search(text.text, begin, end) else set()
                continue
            rows = _ROWS.search(text.text, begin, end)
            many = f" after {rows['n']} row{'s' * (rows['n'] != '1')}" if rows else ""
            cards[bus].append((f"Remapping Failure Occurred{many}", text.evidence(found.start())))
    if len(cards) != 1 or not good.isdisjoint(cards):
        return None
    ((bus, signs),) = cards.items()
    lines = dict(reversed(signs))
    said = list(lines)[::-1]
    return Sharper(
        f"the GPU at 0000:{bus} is worn out: rows of its memory fail, and it has no spare ones left for them "
        f"({'; '.join(said[:3])})",
        "take that GPU, or its node, out of service and have the card replaced (RMA): a reset or restart does not mend "
        "it, and the error comes back. Until then run on the other GPUs (CUDA_VISIBLE_DEVICES without it, fewer in the "
        "group). What other GPUs and ranks report at the same time (Xid 45, launch failures) follows from it",
        tuple(lines[each] for each in said[:3]),
    )


def _is_old(said: Sequence[str]) -> bool:
    """Whether a counter of the card's whole life stands above that since the last start."""
    return any((found := re.search(r"aggregate\S{0,8} (\d{1,9})", each)) and int(found[1]) > 1 for each in said)


def _of_table(text: Text) -> Iterator[tuple[str, str, Evidence]]:
    """Cards with counters above 0 in a table of the driver's own program."""
    for row in _SPELLED.finditer(text.text):
        counts = [f"{each['name']} {each['n']}" for each in _COLUMN.finditer(row["row"])]
        if counts:
            yield row["bus"].lower(), f"GPU {row['gpu']}: uncorrected {', '.join(counts)}", text.evidence(row.start())
    for row in _BOXED.finditer(text.text):
        said = f"GPU {row['gpu']}: uncorrected volatile {row['n']}"
        yield row["bus"].lower(), said, text.evidence(row.start())


def _of_sections(text: Text) -> Iterator[tuple[str, str, Evidence]]:
    """The same of `nvidia-smi -q -d ECC`, which has a part for each card."""
    for bus, begin, end in _sections(text):
        if (found := _COUNTED.search(text.text, begin, end)) is not None:
            yield bus, f"uncorrectable {found['n']}", text.evidence(found.start())


def _sections(text: Text) -> Iterator[tuple[str, int, int]]:
    """The bus address of each card that `nvidia-smi -q` lists, and where its part begins and ends."""
    parts = list(_SECTION.finditer(text.text))
    for number, part in enumerate(parts, 1):
        yield part["bus"].lower(), part.end(), parts[number].start() if number < len(parts) else len(text.text)
