"""A training whose loss is no number (NaN) from some line on, up to its log's end, while its steps go on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.read_logs import lines_of
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.reading.steps import MOST_LINES
from busbw.doctor.signature import Stage

NAME = "loss-nan"
MOST_LOGS = 8
"""All ranks have the same loss: a few logs tell them all."""
FEWEST = 2
"""Of one alone nothing is said: it may be a step that was left out."""
Said = tuple[int, str]
_LOSS = re.compile(
    r"(?<![\w/.-])(?:(?:lm|train|training|total|avg|mean|reduced)[ _/])?loss[\"']?[\s:=]{1,4}[\"']?(?:tensor\()?"
    r"(?P<loss>[+-]?(?:nan\b|inf\b|\d{1,12}(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?))",
    re.IGNORECASE,
)
"""Of the training: an evaluation without data has no loss, which is no fault."""


def examine(facts: Facts) -> Iterator[Finding]:
    telling = [
        file
        for file, scan in zip(facts.snapshot.logs, facts.scans, strict=True)
        if scan.kinds["steps"] and (file.text is not None or not file.why)
    ]
    for file in telling[:MOST_LOGS]:
        with lines_of(file) as lines:
            found = _from_where(lines)
        if found is not None:
            yield _finding(file, *found)
            return


def _from_where(lines: Iterable[str]) -> tuple[Said | None, Said] | None:
    """The last line with a loss that is a number, and the first of all those behind it that have none."""
    right, wrong, count = None, (0, ""), 0
    for number, line in enumerate(islice(lines, MOST_LINES), 1):
        if "loss" not in line and "Loss" not in line:
            continue
        said = _LOSS.search(line)
        if said is None:
            continue
        if math.isnan(float(said["loss"])):
            wrong, count = wrong if count else (number, line.strip()), count + 1
        else:
            right, count = (number, line.strip()), 0
    return (right, wrong) if count >= FEWEST else None


def _finding(file: TextFile, right: Said | None, wrong: Said) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        f"the loss is no number (NaN) from line {wrong[0]} on, up to the log's end: the steps go on and train nothing",
        tuple(Evidence(shortened(text, 200), file.path, at) for at, text in filter(None, (right, wrong))),
        Cost("every step since then is lost: the weights are NaN too"),
        "go back to a checkpoint from before that line. Where it happens again at the same step, it is the data or "
        "the step size: leave out the sample, lower the learning rate, clip. Where it does not, or follows a node, "
        "a GPU computes wrongly",
        Proof(instruction="the same steps from the same checkpoint, on other nodes; dcgmi diag -r 3 on these"),
        stage=Stage.PROGRAM,
    )
