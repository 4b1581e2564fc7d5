"""A second MPI program within one task of srun: the helper of MPI (PMIx) serves each task once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_GONE = re.compile(
    r"PMIX ERROR: (?:NOT[- ]FOUND|UNREACHABLE|PMIX_ERR_(?:NOT_FOUND|UNREACH))[^\n]{0,40}\bptl_\w{2,20}\.c"
    r"|OPAL ERROR: Unreachable in file (?:ext|pmix)\w{1,8}_client\.c"
)
"""The program was told of a server, and finds none."""
_SRUN = re.compile(
    r"^(?!#SBATCH)[^\n]{0,160}?\bsrun\b[^\n]{0,800}?--mpi[= ]pmix\w{0,6}\b[^\n]{0,800}?"
    r"\s(?:ba|z|k)?sh\s(?!-c )(?P<script>\S{1,200})",
    re.MULTILINE,
)
_PROGRAM = re.compile(
    r"^(?:[A-Z_]{1,40}=\S{1,80} ){0,4}(?:python[\d.]{0,5} (?!-m pip|--version)|\./|/)\S[^\n]{2,300}$",
    re.MULTILINE,
)
_SHELL = re.compile(r"^#!\S{0,40}\b(?:ba|z|k)?sh\b[^\n]{0,40}$", re.MULTILINE)
_LINES = 60
_WENT = re.compile(r"100%\|[^\n]{0,120}$|\b(?:done|finished|completed)\b[^\n]{0,40}$", re.MULTILINE | re.IGNORECASE)


def second_in_step(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """srun starts a script with a server of PMIx, the script runs several programs, and one of them finds no server."""
    for text in texts:
        run = _SRUN.search(text.text)
        # Who writes of the error above the command quotes it.
        gone = None if run is None else _GONE.search(text.text, run.end()) or _GONE.search(text.text)
        if gone is None or run is None:
            continue
        programs = _programs(text.text)
        went = next((found for found in _WENT.finditer(text.text, run.end(), gone.start())), None)
        if len(programs) < 2 and went is None:
            continue
        first = ", and the first one ran through" if went is not None else ""
        return Sharper(
            f"a second MPI program in one task of srun finds no server of PMIx: the script of that task starts "
            f"several{first}. A task joins PMIx once, and leaves it with its first program",
            "start each program by an srun of its own (two srun lines in the batch script, not two programs in one "
            "script below srun). Or let one program do both. Open MPI's word that it was not built with PMI follows "
            "from it: --mpi, TMPDIR and the versions are right",
            (
                text.evidence(gone.start()),
                *((text.evidence(programs[1]),) if len(programs) > 1 else ()),
                text.evidence(run.start("script")),
            ),
        )
    return None


def _programs(text: str) -> list[int]:
    """Where programs stand in the shell script that the log shows."""
    head = _SHELL.search(text)
    if head is None:
        return []
    part = "\n".join(text[head.end() :].split("\n", _LINES)[:_LINES]).partition("```")[0]
    return [head.end() + found.start() for found in _PROGRAM.finditer(part)]
