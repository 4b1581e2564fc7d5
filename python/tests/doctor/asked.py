"""What the doctor says, above a note, of one log; and the logs of one file of the corpus by their names."""

from __future__ import annotations

from pathlib import Path

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus.load import cases


def logs_of(prefix: str) -> dict[str, str]:
    """The cases whose names begin so, by the rest of their names."""
    return {each.name.removeprefix(prefix): each.text for each in cases() if each.name.startswith(prefix)}


def loud(text: str, folder: Path) -> list[Finding]:
    """The findings above a note for that log, in their order."""
    path = folder / "job.log"
    path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [each for each in found if each.severity is not Severity.NOTE]


def is_told_first(text: str, folder: Path, title: str, fix: str) -> bool:
    """Whether the first finding has these words in its title and its cure; a failure shows what stands there."""
    found = loud(text, folder)[0]
    assert title in found.title, found.title
    assert fix in found.fix, found.fix
    return True


def is_claimed(words: str, text: str, folder: Path) -> bool:
    """Whether any title or cure has these words."""
    return any(words in f"{each.title} {each.fix}" for each in loud(text, folder))
