"""Sharper words for findings that stand for several faults: by what their evidence says, its own cause and cure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.meanings.cluster_rows import CLUSTER_ROWS
from busbw.doctor.meanings.device_rows import DEVICE_ROWS
from busbw.doctor.meanings.job_rows import JOB_ROWS
from busbw.doctor.meanings.launch_rows import LAUNCH_ROWS
from busbw.doctor.meanings.machine_rows import MACHINE_ROWS
from busbw.doctor.meanings.mpi_rows import MPI_ROWS
from busbw.doctor.meanings.particular_rows import ROWS
from busbw.doctor.meanings.scheduler_rows import SCHEDULER_ROWS
from busbw.doctor.meanings.serving_rows import SERVING_ROWS
from busbw.doctor.meanings.torch_rows import TORCH_ROWS
from busbw.doctor.meanings.training_rows import TRAINING_ROWS


@dataclass(frozen=True, slots=True)
class Particular:
    """Words of the evidence, and what they make of title and cure; {names} stand for groups of the words.

    {title} in the title stands for the title as it was: the words tell the cure alone.
    """

    words: re.Pattern[str]
    title: str
    cure: str


def _rows(text: str) -> Iterator[Particular]:
    """Rows of `words ; title ; cure`; a row may go on in lines that are indented."""
    for row in re.split(r"\n(?=\S)", text.strip()):
        words, title, cure = re.split(r"\s+;\s+", " ".join(row.split()), maxsplit=2)
        yield Particular(re.compile(words, re.IGNORECASE), title, cure)


TABLES = (
    TORCH_ROWS,
    SERVING_ROWS,
    TRAINING_ROWS,
    DEVICE_ROWS,
    SCHEDULER_ROWS,
    CLUSTER_ROWS,
    JOB_ROWS,
    MPI_ROWS,
    MACHINE_ROWS,
    LAUNCH_ROWS,
    ROWS,
)
"""In the order in which their rows are tried: the narrower ones first."""


def _all() -> dict[str, tuple[Particular, ...]]:
    """By signature, the rows of all tables: the narrower ones first."""
    found: dict[str, tuple[Particular, ...]] = {}
    for table in TABLES:
        for name, text in table.items():
            found[name] = (*found.get(name, ()), *_rows(text))
    return found


PARTICULARS = _all()


WENT_ON = " (the job went on after it)"
"""How the title ends of what cost a job nothing: it is still to be told for what it was."""


def with_particular(finding: Finding) -> Finding:
    """The finding as the first of its particulars that its evidence holds tells it."""
    plain = finding.title.removesuffix(WENT_ON)
    if finding.severity is Severity.NOTE and (plain == finding.title or plain.startswith("follows from ")):
        return finding
    for each in PARTICULARS.get(finding.name, ()):
        for seen in finding.evidence:
            if found := each.words.search(seen.fact):
                groups = {name: clean(shortened(text, 80)) for name, text in found.groupdict().items() if text}
                empty = dict.fromkeys(each.words.groupindex, "")
                title = each.title.format_map({"title": plain, **empty, **groups})
                return replace(finding, title=title + finding.title[len(plain) :], fix=each.cure)
    return finding
