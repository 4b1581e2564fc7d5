"""A training whose steps became slower, by its own log, and stayed so."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.read_logs import lines_of
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.reading.steps import Slower, slower, steps_of
from busbw.doctor.signature import Stage

NAME = "steps-slower"
MOST_LOGS = 8
"""All ranks take the same steps: a few logs tell them all."""


def examine(facts: Facts) -> Iterator[Finding]:
    telling = [
        file
        for file, scan in zip(facts.snapshot.logs, facts.scans, strict=True)
        if scan.kinds["steps"] and (file.text is not None or not file.why)
    ]
    for file in telling[:MOST_LOGS]:
        with lines_of(file) as lines:
            found = slower(steps_of(lines))
        if found is not None:
            yield _finding(file, found)


def _finding(file: TextFile, found: Slower) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        f"steps take {found.factor:.1f} times as long from line {found.line} on, up to the log's end",
        tuple(Evidence(each.said, file.path, each.line) for each in (found.before, found.after)),
        Cost(f"{found.factor:.1f} times the time of a step", found.factor, "the log's own figures"),
        "look at what else changed there: a GPU that throttles or was taken (nvidia-smi -q -d PERFORMANCE on each "
        "host), or a port that flaps or lost lanes. It may also be a slow file system or loader, or a rank that came "
        "back on another host. One slow rank holds up all of them",
        Proof(instruction="busbw watch on one rank of each host: it names the rank that the others wait for"),
        stage=Stage.EFFECT,
    )
