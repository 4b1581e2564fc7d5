"""nccl-tests beside our engine on a few sizes, with either library: figures must not hang on who holds the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gpu.table import parse_rows

from gpu_library.contest import last_words
from gpu_library.environment import plain, preloaded
from gpu_library.machine import Machine
from gpu_library.peers import OURS, engine_environment
from gpu_library.program import Command
from gpu_library.session import Result, Session, in_turn

WORDS = ("-b", "1K", "-e", "64M", "-f", "64", "-n", "20", "-w", "5", "-G", "20", "-c", "1", "-t", "1", "-g", "1")
TOOLS = ("nccl-tests", "busbw")
LIBRARIES = (OURS, "NCCL")


@dataclass(frozen=True)
class Cross:
    tool: str
    library: str
    collective: str

    @property
    def label(self) -> str:
        return f"{self.tool} on {self.library}, {self.collective}"


def command(cross: Cross, machine: Machine, base: Mapping[str, str]) -> Command:
    """One process per GPU, by mpirun for both tools, so that nothing else differs."""
    mpirun = ("mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(machine.gpus))
    if cross.tool == "busbw":
        library = machine.ours if cross.library == OURS else machine.nccl
        program = (str(machine.engine), cross.collective, *WORDS, "--library", str(library))
        return Command((*mpirun, *program), {**base, **engine_environment(machine, base),
                                             "BUSBW_REAL_NCCL": str(machine.nccl)})  # fmt: skip
    if machine.nccl_tests is None:
        raise ValueError("NCCL_TESTS_BIN names no folder with nccl-tests' all_reduce_perf")
    changes = preloaded(machine.ours, machine.nccl, base) if cross.library == OURS else plain(machine.nccl, base)
    preload = ("env", f"LD_PRELOAD={changes.pop('LD_PRELOAD')}") if cross.library == OURS else ()
    changes["LD_LIBRARY_PATH"] += f":{machine.nccl_tests}"
    return Command(
        (*mpirun, *preload, str(machine.nccl_tests / f"{cross.collective}_perf"), *WORDS), {**base, **changes}
    )


def stage(session: Session) -> list[Result]:
    if session.machine.host:
        print("nccl-tests needs GPUs: nothing to compare with", flush=True)
        return []
    plans = [Cross(tool, library, c) for c in session.wanted.collectives[:2] for library in LIBRARIES for tool in TOOLS]
    results: list[Result] = []
    for number, position in in_turn(max(2, session.wanted.rounds), len(plans)):
        cross = plans[position]
        if not session.fits(cross.label, 8):
            continue
        ended = session.run(cross.label, command(cross, session.machine, session.environment()))
        session.deadline.took(cross.label, ended.seconds)
        rows = parse_rows(ended.text)
        results.append({
            "tool": cross.tool, "library": cross.library, "collective": cross.collective, "round": number,
            "exit": ended.code, "reason": "" if ended.code == 0 else last_words(ended.text),
            "us": {str(row.size): row.out_of_place_us for row in rows},
        })  # fmt: skip
    return results


def compared(results: Sequence[Result]) -> list[tuple[str, str, int, float, float]]:
    """By collective, library and size: medians in nccl-tests and in the engine, where both have one."""
    times: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for result in results:
        for size, us in result["us"].items():
            key = (result["collective"], result["library"], int(size))
            times.setdefault(key, {}).setdefault(result["tool"], []).append(us)
    return [
        (*key, median(by_tool["nccl-tests"]), median(by_tool["busbw"]))
        for key, by_tool in sorted(times.items())
        if set(by_tool) == set(TOOLS)
    ]
