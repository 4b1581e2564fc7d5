"""Other tools' results to busbw's records: any file, recognised by what it holds, read line by line.

Use::

    report = import_path(Path("job.log"), take)   # calls take(sweep) as each sweep is complete
    sweep.record(), sweep.lines()                 # the sweep as a Record, or as its lines of JSON
    print(report.summary())                       # sweeps, rows, and what they are
    report.problems                               # every line that looks like a result and could not be read

`load(path)` gives the records alone, for verbs that take a log where they take a run.

A format is one file and one line in `busbw.importers.formats`.
"""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from busbw.base.effort import EFFORT, HINT, PER_EXAMINED
from busbw.base.errors import UserError
from busbw.importers.draft import ImportedSweep
from busbw.importers.file import import_folder, import_path, import_stream
from busbw.importers.lines import OVERDRAFT
from busbw.importers.report import FileReport
from busbw.records import Collective, Record

PER_LOADED_SWEEP = 1_500
"""What a sweep costs that is examined at once, beside its cases, in units of work."""
WORTH = PER_LOADED_SWEEP // PER_EXAMINED
"""Cases of a sweep that cost more to be read than to be left in."""

__all__ = ["FileReport", "ImportedSweep", "import_folder", "import_path", "import_stream", "load"]


def load(
    path: str | PathLike[str], collective: Collective | None = None, tell: Callable[[str], None] = lambda _: None
) -> list[Record]:
    """Every record of a log or of a folder of logs; UserError where it holds none, with what it seems to be.

    Where a part alone was read, `tell` gets a sentence.
    """
    records: list[Record] = []
    left_out = 0
    read = import_folder if Path(path).is_dir() else import_path

    def take(sweep: ImportedSweep) -> None:
        nonlocal left_out
        EFFORT.spend(PER_LOADED_SWEEP)
        if EFFORT.is_spent and records and (len(sweep) <= WORTH or EFFORT.left < -OVERDRAFT):
            left_out += 1
            return
        records.append(sweep.record())

    with EFFORT.examining():
        report = read(Path(path), take, collective=collective)
    if report.is_part:
        tell(f"{path}: {report.skimmed_over}")
    if left_out:
        tell(f"{path}: {left_out} of the sweeps that were read are left out, as they cost too much: {HINT}")
    if not records:
        said = [*report.problems[:1], *[f"it seems to be {each}" for each in [report.seems] if each]]
        raise UserError(f"{path} holds no results that busbw can read: {'; '.join(said)}")
    return records
