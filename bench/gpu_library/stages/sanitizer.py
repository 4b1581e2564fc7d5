"""compute-sanitizer over our own GPU tests: bad accesses (memcheck) and races in shared memory (racecheck)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

from gpu_library.contest import last_words
from gpu_library.machine import output
from gpu_library.program import Command
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


def argv(tool: str, program: str) -> tuple[str, ...]:
    return ("compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", program)


def stage(session: Session) -> list[Result]:
    if not shutil.which("compute-sanitizer"):
        raise ValueError("compute-sanitizer is not installed here")
    return list(_run(session))


def _run(session: Session) -> Iterator[Result]:
    listing = output("ctest", "--test-dir", str(session.machine.build), "-L", "gpu", "--show-only=json-v1")
    for program in gpu_programs(listing):
        for tool in TOOLS:
            name = program.rpartition("/")[2]
            label = f"{tool} {name}"
            if not session.fits(label, 20):
                continue
            ended = session.run(label, Command(argv(tool, program), session.environment()))
            found = errors(ended.text) or last_words(ended.text)
            yield {"tool": tool, "program": name, "exit": ended.code, "found": found}
