"""Warnings and errors that NCCL itself wrote into a log, and ranks that never finished initialising."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.nccl.log_model import NcclLog

NAME = "nccl-warnings"
_MEMORY = ("shared memory", "/dev/shm", "No space left")
_PROOF = Proof(instruction="run once more with NCCL_DEBUG=INFO and give the log to `busbw doctor --log`")


def examine(facts: Facts) -> Iterator[Finding]:
    for log in facts.logs:
        for each in log.warnings[:20]:
            small = any(word in each.text for word in _MEMORY)
            times = f" ({each.count} times)" if each.count > 1 else ""
            yield Finding(
                NAME,
                Severity.ERROR if small else Severity.WARNING,
                f"NCCL warns: {each.text[:160]}{times}",
                (Evidence(each.where, log.source, each.line),),
                Cost("the operation failed or took a slower way"),
                "give the container more shared memory (--shm-size=1g)"
                if small
                else "see the first such line of the log",
                _PROOF,
            )
        yield from _unfinished(log)


def _unfinished(log: NcclLog) -> Iterator[Finding]:
    for each in log.communicators:
        waiting = [place for place in each.ranks if not place.complete]
        if waiting and any(place.complete for place in each.ranks):
            names = ", ".join(str(place.rank) for place in waiting[:16])
            yield Finding(
                NAME, Severity.WARNING, f"{len(waiting)} of {len(each.ranks)} ranks never finished initialising",
                (Evidence(f"ranks {names} began and did not complete", log.source, waiting[0].line),),
                Cost("the others wait for them"), "look at these ranks' hosts; the log may also be cut off", _PROOF,
            )  # fmt: skip
