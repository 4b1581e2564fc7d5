"""What a log shows beside a run that is slow, and that slows any run: a debug build, a checker, a clock set low."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.figures import below_expected, steps_slower
from busbw.doctor.findings.network import one_rail
from busbw.doctor.signature import Stage

NAME = "slowed-by"
_ROWS = (
    (
        re.compile(
            r"\bmake\b.{0,200}\b(?:DEBUG=1|TRACE=1)\b|\bnvcc\b.{0,400} -G(?: |$)|CMAKE_BUILD_TYPE=Debug\b"
            r"|--buildtype[= ]debug\b"
        ),
        "the library was built for debugging (without optimisation)",
        "build it again without DEBUG=1, -G and -O0 (make -j src.build), or use the packaged library",
    ),
    (
        re.compile(r"\b(?:compute-sanitizer|cuda-memcheck|cuda-gdb|valgrind)\b(?! ?[:=]? ?(?:not|no|off))"),
        "the run goes under a checker or debugger",
        "run it without compute-sanitizer, cuda-gdb or valgrind",
    ),
    (
        re.compile(
            r"nvidia-smi\b.{0,60} (?:-lgc|--lock-gpu-clocks|-ac|--applications-clocks)\b|GPU clocks set to \"|"
            r"Applications clocks set to \"|[Pp]ower limit for GPU \S{1,40} was set to"
        ),
        "somebody set the clocks or the power of the GPUs",
        "nvidia-smi -rgc; nvidia-smi -rac; nvidia-smi -pl with the default limit",
    ),
    (
        re.compile(r"scaling_governor\W{0,4}.{0,40}\bpowersave\b|governor \"powersave\"", re.IGNORECASE),
        "the processors save power (governor powersave)",
        "cpupower frequency-set -g performance on all hosts",
    ),
)  # fmt: skip
_WORDS = ("DEBUG=1", "TRACE=1", " -G", "ebug", "compute-sanitizer", "cuda-", "valgrind", "nvidia-smi", "clocks set",
          "limit for GPU", "powersave")  # fmt: skip


def examine(facts: Facts) -> Iterator[Finding]:
    reasons = list(_reasons(facts))
    if not reasons:
        return
    slow = [*below_expected.examine(facts), *one_rail.examine(facts), *steps_slower.examine(facts)]
    if any(each.severity is not Severity.NOTE for each in slow):
        yield from reasons


def _reasons(facts: Facts) -> Iterator[Finding]:
    """Each reason that a log shows, once."""
    told = set[str]()
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if not any(word in line for word in _WORDS):
                continue
            for words, what, fix in _ROWS:
                if what not in told and words.search(line):
                    told.add(what)
                    yield Finding(
                        NAME, Severity.WARNING, f"the run is slow, and the log shows a reason: {what}",
                        (Evidence(shortened(line.strip(), 200), shown.source, number),),
                        Cost("it slows every kernel"), fix,
                        Proof(instruction="run again without it, and compare"), stage=Stage.SETTING,
                    )  # fmt: skip
