"""Right results: our own GPU tests, unmodified nccl-tests with our library preloaded, and the engine on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu.table import Row, parse_rows

from gpu_library.contest import last_words
from gpu_library.environment import preloaded
from gpu_library.machine import Machine
from gpu_library.peers import ACCELERATED, COPIES, HANDED_OVER, IN_WINDOWS, engine_environment
from gpu_library.program import Command
from gpu_library.session import Result, Session

LOGGED = {"BUSBW_GPU_LOG": "2"}
"""Has our library say which kernel does what."""

MODES = ("processes", "threads", "gpus")
"""A process per GPU, a thread per GPU, and one thread for all."""

_KERNEL = re.compile(r"busbw: rank \d+: \w+ by (\w+/\w+)")

EVERYTHING = ("-d", "all", "-o", "all", "-n", "1", "-w", "0", "-c", "1")


@dataclass(frozen=True)
class Check:
    """One run whose table must show no wrong element."""

    tool: str  # nccl-tests or busbw
    collective: str
    mode: str
    gpus: int
    words: tuple[str, ...]
    what: str
    table: str = ""  # BUSBW_TABLE

    @property
    def label(self) -> str:
        return f"{self.tool} {self.collective}, {self.gpus} GPUs, {self.mode}, {self.what}"


def plan(counts: Sequence[int], collectives: Sequence[str], tools: Sequence[str], graphs: bool) -> Iterator[Check]:
    """Every check, the most telling first: what runs out of time is missed least at the end."""
    sweeps: list[tuple[tuple[str, ...], str]] = [
        (("-b", "8", "-e", "2M", "-f", "64", *EVERYTHING), "every type and op")
    ]
    if graphs:
        sweeps.append((("-b", "8", "-e", "64M", "-f", "32", "-n", "4", "-w", "2", "-G", "3", "-c", "2"), "graphs"))
    odd = ("-b", "1000", "-e", "9M", "-f", "7", "-u", "1", "-d", "half", "-n", "3", "-w", "1", "-c", "1")
    sweeps.append((odd, "odd sizes, shifted by an element"))
    largest_first = sorted(counts, reverse=True)
    handed = ("-b", "8", "-e", "2M", "-f", "64", "-n", "2", "-w", "1", "-c", "1")
    # Each kind of check before any of them again with other ranks or another program.
    for tool in tools:
        # One program shows that the library is right; the other that it is so whoever calls.
        fewer = tool != tools[0]
        for mode in MODES[: 1 if fewer else None]:
            for words, what in sweeps:
                # What every type and op does with fewer ranks, graphs and odd sizes do too.
                for gpus in largest_first[: None if what == sweeps[0][1] and not fewer else 1]:
                    for collective in collectives:
                        yield Check(tool, collective, mode, gpus, words, what)
            windows = ("-b", "8", "-e", "2M", "-f", "64", "-R", "2", *EVERYTHING)
            for collective in collectives if graphs else ():
                if collective in IN_WINDOWS:
                    yield Check(tool, collective, mode, largest_first[0], windows, "copies into windows", COPIES)
            if mode == MODES[0] and not fewer:
                for collective in HANDED_OVER:
                    yield Check("nccl-tests", collective, "processes", largest_first[0], handed, "handed over to NCCL")


def ranks_of(check: Check) -> tuple[str, ...]:
    processes, threads, gpus = {
        "processes": (check.gpus, 1, 1), "threads": (1, check.gpus, 1), "gpus": (1, 1, check.gpus)
    }[check.mode]  # fmt: skip
    return ("-t", str(threads), "-g", str(gpus)) if processes == 1 else ("-t", "1", "-g", "1")


def command(check: Check, machine: Machine, base: Mapping[str, str]) -> Command:
    """How one check is started; `base` is what every program here gets."""
    if check.table:
        base = {**base, "BUSBW_TABLE": check.table}
    words = (*check.words, *ranks_of(check))
    # mpirun starts one process as well as several, but takes a second for it.
    many = check.gpus if check.mode == "processes" else 1
    if check.tool == "busbw":
        run = (machine.python, "-m", "busbw", "run", "--ranks", str(many), check.collective)
        ours = {"BUSBW_GPU_LIBRARY": str(machine.ours), "BUSBW_REAL_NCCL": str(machine.nccl)}
        # By its own word, which insists on GPUs.
        library = str(machine.ours) if machine.host else "busbw"
        argv = (*run, *words, "--library", library, "--no-record")
        return Command(argv, {**base, **engine_environment(machine, base), **ours, **LOGGED})
    if machine.nccl_tests is None:
        raise ValueError("NCCL_TESTS_BIN names no folder with nccl-tests' all_reduce_perf")
    program = (str(machine.nccl_tests / f"{check.collective}_perf"), *words)
    changes = {**preloaded(machine.ours, machine.nccl, base), **LOGGED}
    folders = f"{changes['LD_LIBRARY_PATH']}:{machine.nccl_tests}"
    if many == 1:
        return Command(program, {**base, **changes, "LD_LIBRARY_PATH": folders})
    # The launcher itself has no use for our library: its ranks get it.
    exported = tuple(f"{name}={value}" for name, value in changes.items() if name == "LD_PRELOAD")
    argv = ("mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(many), "env", *exported, *program)
    rest = {name: value for name, value in changes.items() if name != "LD_PRELOAD"}
    return Command(argv, {**base, **rest, "LD_LIBRARY_PATH": folders})


def wrong_rows(rows: Sequence[Row]) -> int:
    return sum(bool(row.out_of_place_wrong) or bool(row.in_place_wrong) for row in rows)


def used(text: str) -> list[str]:
    """Which of our kernels worked, as the library logs it: a check that NCCL passed alone shows nothing of ours."""
    return sorted(set(_KERNEL.findall(text)))


def passed(result: Mapping[str, Any]) -> bool:
    """Rows there are, none of them wrong, the program says so itself, and ours was at work where it had to be."""
    asleep = result.get("must_use") and not result.get("used")
    return result["exit"] == 0 and result["rows"] != 0 and result["wrong"] == 0 and not asleep


def stage(session: Session) -> list[Result]:
    machine = session.machine
    results = [] if machine.host else own_tests(session)
    tools = ("nccl-tests", "busbw") if machine.nccl_tests and not machine.host else ("busbw",)
    collectives = tuple(each for each in session.wanted.collectives if each in ACCELERATED)
    for check in plan(machine.counts, collectives, tools, graphs=not machine.host):
        if check.tool not in tools or not session.fits(check.label, 8):
            continue
        ended = session.run(check.label, command(check, machine, session.environment()))
        session.deadline.took(check.label, ended.seconds)
        rows = parse_rows(ended.text)
        results.append({
            "tool": check.tool, "collective": check.collective, "mode": check.mode, "gpus": check.gpus,
            "what": check.what, "exit": ended.code, "rows": len(rows), "wrong": wrong_rows(rows),
            "seconds": round(ended.seconds, 1), "reason": "" if ended.code == 0 else last_words(ended.text),
            "used": used(ended.text), "must_use": check.collective in ACCELERATED and not machine.host,
        })  # fmt: skip
    return results


def own_tests(session: Session) -> list[Result]:
    """The C++ tests that carry the label gpu."""
    argv = ("ctest", "--test-dir", str(session.machine.build), "-L", "gpu", "--output-on-failure", "--timeout", "120")
    ended = session.run("own GPU tests", Command((*argv, "--no-tests=error"), session.environment()))
    summary = next((line for line in ended.text.splitlines() if "tests passed" in line), "")
    reason = "" if ended.code == 0 else last_words(ended.text)
    return [{
        "tool": "ctest", "collective": "all", "mode": "own tests", "gpus": session.machine.gpus, "what": summary,
        "exit": ended.code, "rows": summary.count("tests passed"), "wrong": 0, "seconds": round(ended.seconds, 1),
        "reason": reason,
    }]  # fmt: skip
