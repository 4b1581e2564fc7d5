"""compute-sanitizer over our GPU tests and a short stress run: bad accesses (memcheck), races in blocks (racecheck)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from gpu_library.contest import last_words
from gpu_library.machine import output
from gpu_library.program import Command, Ended, as_ranks, free_port
from gpu_library.session import Result, Session

TOOLS = ("memcheck", "racecheck")
FOUND = 99
"""Exit code asked for where the sanitizer finds something, so that it is no test's own."""


def gpu_programs(listing: str) -> list[str]:
    """Programs of the tests in what `ctest --show-only=json-v1` prints, each once."""
    try:
        kept: Any = json.loads(listing)
    except ValueError:
        return []
    commands = [test.get("command") or [] for test in kept.get("tests", [])]
    return sorted({str(command[0]) for command in commands if command})


def errors(text: str) -> str:
    """The sanitizer's own last count, such as `0 errors`, or `0 hazards displayed`."""
    lines = [line.partition("SUMMARY:")[2].strip() for line in text.splitlines() if "SUMMARY:" in line]
    return lines[-1] if lines else ""


def argv(tool: str, *program: str) -> tuple[str, ...]:
    # Refusals of the driver are answers that the library asks for, such as whether an image has a kernel.
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    return (
        "compute-sanitizer",
        "--tool",
        tool,
        *quiet,
        "--error-exitcode",
        str(FOUND),
        "--target-processes",
        "all",
        *program,
    )


def stress_argv(session: Session, tool: str) -> tuple[str, ...]:
    """Few small calls: under the sanitizer each takes a hundred times as long."""
    machine = session.machine
    words = (
        "--calls",
        "200",
        "--largest",
        "1M",
        "--graphs",
        "1",
        "--timeout",
        "60",
        "--seed",
        str(session.wanted.seed),
    )
    return argv(tool, str(machine.stress), "--library", str(machine.ours), *words)


def stage(session: Session) -> list[Result]:
    if not shutil.which("compute-sanitizer"):
        raise ValueError("compute-sanitizer is not installed here")
    return [*_own_tests(session), *_stress(session)]


def _own_tests(session: Session) -> Iterator[Result]:
    listing = output("ctest", "--test-dir", str(session.machine.build), "-L", "gpu", "--show-only=json-v1")
    for program in gpu_programs(listing):
        for tool in TOOLS:
            name = program.rpartition("/")[2]
            label = f"{tool} {name}"
            if session.fits(label, 20):
                ended = session.run(label, Command(argv(tool, program), session.environment()))
                yield _result(tool, name, [ended])


def _stress(session: Session) -> Iterator[Result]:
    """Our kernels between two ranks. In processes of their own: the sanitizer makes launches wait for each other."""
    environment = session.environment({"BUSBW_REAL_NCCL": str(session.machine.nccl)})
    for tool in TOOLS:
        label = f"{tool} busbw_stress, 2 processes"
        if session.fits(label, 30):
            commands = as_ranks(stress_argv(session, tool), environment, 2, free_port())
            yield _result(tool, "busbw_stress, 2 processes", session.run_ranks(label, commands))


def _result(tool: str, name: str, ended: Sequence[Ended]) -> Result:
    worst = next((each for each in ended if each.code != 0), ended[0])
    found = "; ".join(errors(each.text) or last_words(each.text) for each in ended)
    return {"tool": tool, "program": name, "exit": worst.code, "found": found}
