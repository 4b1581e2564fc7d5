"""Tables of benchmarks in logs: which files may hold one, its sweeps, and what of them was not taken."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from busbw.base import files
from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT, MIB, PER_MIB, per_mib
from busbw.base.errors import UserError
from busbw.base.pool import mapped
from busbw.doctor.reading.packed import ends_early, is_packed, opened, read_first
from busbw.doctor.reading.read_logs import ALONE_BYTES, MAX_PROCESSES
from busbw.doctor.reading.snapshot import TextFile
from busbw.importers import ImportedSweep, import_path
from busbw.importers.reading import EnoughError
from busbw.records import Record

MAX_SWEEPS = 1000
MAX_ROWS = 60_000
"""Of tables in forms of people's own, a tenth of a millisecond each; `busbw import` reads all of them."""
BLOCK_BYTES = 1 << 20
PER_FILE, PER_MIB_SEARCHED = 150, 1_500
"""To open a file, to search it for the words of tables."""
HOW = "they cost too much; give fewer, or --whole where you trust them"
_TABLE = (b"busbw", b"algbw", b"busBw", b"throughput", b"andwidth")
WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How a file begins that has two bytes for a character, of which one is zero in words of tables."""
LONGEST_WORD = max(map(len, _TABLE))
CONTRADICTS = ("contradicts itself", "contradict themselves", "contradict each other")
"""In what the importer says of a row or table that it leaves out."""


def holding_tables(names: Sequence[str]) -> list[str]:
    """Those of the files in which a benchmark's table may stand, looked through by several processes where large."""
    processes = min(MAX_PROCESSES, len(names), len(os.sched_getaffinity(0)))
    if processes < 2 or sum(Path(name).stat().st_size for name in names) < ALONE_BYTES:
        return [name for name in names if _holds_table(name)]
    EFFORT.spend(sum(Path(name).stat().st_size for name in names) * PER_MIB_SEARCHED / MIB)
    if EFFORT.is_spent:
        return list(names)  # who reads them says that it does not
    held = mapped(_holds_table, names, processes)
    return [name for name, holds in zip(names, held, strict=True) if holds]


def tables_of(name: str) -> tuple[tuple[Record, ...], list[str]]:
    """The sweeps of a benchmark that a log holds, and what of it was not read in full or not taken, a sentence each."""
    found: list[Record] = []
    skimmed, refused = "", list[str]()

    def take(sweep: ImportedSweep) -> None:
        found.append(sweep.record())
        if len(found) >= MAX_SWEEPS:
            raise EnoughError(f"{MAX_SWEEPS:,} sweeps")

    try:
        report = import_path(Path(name), take, most_rows=None if EFFORT.is_lifted else MAX_ROWS)
        skimmed, refused = (
            # Lines of the log were read as well; it is the search for tables that ends there.
            report.skimmed_over.replace("the file was read ", "tables of results were looked for up ", 1).replace(
                "looked for up in part", "looked for in a part of it", 1
            ),
            [each for each in report.problems if any(word in each for word in CONTRADICTS)],
        )
    except UserError:
        # The log that holds them is told as cut; what it holds up to there counts.
        if EFFORT.is_spent:
            skimmed = f"it was not searched for tables of results to its end: {HOW}"
        elif not (is_packed(name) and ends_early(name)):
            raise
    return tuple(found), [*([f"{name}: {skimmed}"] if skimmed else []), *refused]


def tables_in(logs: Sequence[TextFile]) -> tuple[tuple[Record, ...], list[str]]:
    """As `tables_of`, for logs whose text is held, as in a bundle: no file of their names need lie here."""
    records, said = list[Record](), list[str]()
    for log in logs:
        text = (log.text or "").encode("utf-8", "replace")
        EFFORT.spend(PER_FILE + len(text) * PER_MIB_SEARCHED / MIB)
        if not any(word in text for word in _TABLE) or EFFORT.is_spent:
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
                path = Path(folder, Path(log.path).name or "log")
                path.write_bytes(text)
                found, notes = tables_of(str(path))
        except OSError as problem:
            # A full disk, or a limit on files' sizes, where what is read lies in memory.
            said.append(f"{log.path}: tables of results were not looked for: {problem.strerror or problem}")
            continue
        records += found
        said += [each.replace(str(path), log.path) for each in notes]
    return tuple(records), said


def _holds_table(name: str) -> bool:
    first = read_first(name)
    per_byte, is_wide = (per_mib(first) - PER_MIB + PER_MIB_SEARCHED) / MIB, first.startswith(WIDE)
    with opened(name) as file, bounded(name, files.bytes_on_disk(name), packed=is_packed(name)):
        before = b""
        while block := file.read(BLOCK_BYTES):
            EFFORT.spend(PER_FILE + len(block) * per_byte)
            if EFFORT.is_spent:
                return True  # who reads it says that it does not
            block = before + (block.replace(b"\0", b"") if is_wide else block)
            if any(word in block for word in _TABLE):
                return True
            before = block[-LONGEST_WORD:]
    return False
