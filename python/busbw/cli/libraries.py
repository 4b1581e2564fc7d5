"""Several libraries in one command, `--library A --library B`: measured in turn, shown side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.analysis.sequence import MIN_ROUNDS
from busbw.base.errors import UsageError, UserError
from busbw.base.programs import with_this_package
from busbw.base.secrets import hide_in_file
from busbw.cli.arguments.measuring import Measurement
from busbw.cli.kept_record import RANK_VARIABLES
from busbw.experiment.plan import Limits
from busbw.runs.destination import RECORD_NAME, new_run_id, runs_directory

if TYPE_CHECKING:
    from busbw.launch.supervise import Supervisor
    from busbw.launch.turns import Turns

BUDGET_S = 300.0
ROUNDS = 20
"""At most, unless -N says another number; a round is a cycle of each over all cases."""
MOST_ROUNDS = 10_000
NEVER_S = 1e9

OUTPUT_NAME = "output.txt"
_END_PATIENCE_S = 15.0  # `busbw run` ends its ranks within 10 s of the first signal


def run(asked: Measurement) -> int:
    """Measure every library, then say per size how each compares with the first."""
    libraries = asked.texts("library")
    _check(asked, libraries)
    words = asked.without("library", "runs", "no-record", "budget").words
    if asked.has("dry-run"):
        for library in libraries:
            print("busbw", *words, "--library", library)
        return 0
    folder = runs_directory(asked.record.runs) / f"libraries-{new_run_id()}"
    limits = limits_of(asked)
    fixed = asked.has("run_cycles") or asked.has("precision")
    players = list(_players(words if fixed else (*words, "--run_cycles", "0"), libraries, folder))
    until = "" if fixed else f"; at most {limits.rounds} rounds or {limits.seconds:g} s"
    print(f"busbw: measuring {len(players)} libraries in turn, case by case{until}", file=sys.stderr, flush=True)
    codes = _measure(players, folder, limits)
    return _report(players, codes, folder)


def limits_of(asked: Measurement) -> Limits:
    """When measuring ends: once every size has a verdict, unless -N says how many rounds, or --precision."""
    cycles, budget = asked.value("run_cycles"), asked.value("budget")
    if asked.has("precision"):
        cycles = cycles or 1
    if cycles:
        return Limits(budget or NEVER_S, cycles, max(cycles, MIN_ROUNDS))
    return Limits(budget or BUDGET_S, ROUNDS if cycles is None else MOST_ROUNDS)


@dataclass(frozen=True)
class Player:
    """One library, its processes and where they write."""

    library: str
    argv: tuple[str, ...]
    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / RECORD_NAME


def _players(words: Sequence[str], libraries: Sequence[str], folder: Path) -> Iterator[Player]:
    for number, library in enumerate(libraries):
        place = folder / f"{chr(ord('A') + number)}"
        record = str(place / RECORD_NAME)
        argv = (sys.executable, "-m", "busbw", *words, "--library", library, "--record", record)
        yield Player(library, argv, place)


def _check(asked: Measurement, libraries: Sequence[str]) -> None:
    started = next((name for name in RANK_VARIABLES if name in os.environ), None)
    if started:
        raise UsageError(
            f"this process was started as one of several ranks ({started} is set). Several libraries are measured by "
            f"one command that starts the ranks itself: use busbw run --ranks N COLLECTIVE --library A --library B"
        )
    if asked.has("record"):
        raise UsageError("--record names one file, but every library has its own record; choose a folder with --runs")
    if len(libraries) > 26:
        raise UsageError(f"{len(libraries)} libraries are more than 26, which is the most")
    launcher = asked.launch.launcher
    if launcher not in {"local", "mpirun", "hydra", "torchrun"}:
        raise UsageError(f"several libraries take turns on this host; --launcher {launcher} would run them elsewhere")


def _measure(players: Sequence[Player], folder: Path, limits: Limits) -> list[int]:
    """Start all, let them take turns, and give their exit codes. Whatever happens, none is left running."""
    from busbw.base.progress import progress
    from busbw.launch.supervise import Child, Patience, Rules, Supervisor
    from busbw.launch.turns import VARIABLE, Turns

    with Turns(len(players)) as turns, ExitStack() as outputs:
        children = []
        for player, setting in zip(players, turns.settings, strict=True):
            player.folder.mkdir(parents=True)
            kept = player.folder / OUTPUT_NAME
            outputs.callback(_without_secrets, kept)
            output = outputs.enter_context(kept.open("wb"))
            kept.chmod(0o600)
            environment = {**with_this_package(os.environ), VARIABLE: setting}
            children.append(Child(f"library {player.library}", player.argv, environment, output=output))
        rules = Rules(patience=Patience(to_stop=_END_PATIENCE_S), together=False, speaker="busbw")
        supervisor = Supervisor(children, rules)
        with progress(f"{len(players)} libraries in turn") as tell:
            session = _Session(players, turns, supervisor, tell)
            supervisor.run(beside=lambda: session.run(folder, limits))
    if supervisor.interrupted:
        raise SystemExit(128 + supervisor.interrupted)
    if session.problem:
        raise session.problem
    return [process.code for process in supervisor.processes]


@dataclass
class _Session:
    """The experiment beside the engines; whatever ends it, the engines hear that no turn follows."""

    players: Sequence[Player]
    turns: Turns
    supervisor: Supervisor
    tell: Callable[[str], None]
    problem: UserError | None = None

    def run(self, folder: Path, limits: Limits) -> None:
        """Measure those that could be opened until each size has a verdict."""
        try:
            there = self.turns.gather(self._runs)
            if len(there) > 1:
                self._experiment(there, folder, limits)
        except UserError as problem:
            self.problem = problem
        finally:
            self.turns.end()
            for number in self.turns.late:
                self.supervisor.stop(number)

    def _runs(self, number: int) -> bool:
        return self.supervisor.processes[number].popen.returncode is None

    def _experiment(self, there: Sequence[int], folder: Path, limits: Limits) -> None:
        from busbw.experiment.by_size import BySize
        from busbw.experiment.factors import Factor, Level
        from busbw.experiment.loop import Experiment, in_turns
        from busbw.experiment.plan import Plan
        from busbw.experiment.resident import Resident, Residents

        chosen = [self.players[number] for number in there]
        factor = Factor("library", tuple(Level(player.library, library=player.library) for player in chosen))
        residents = [
            Resident(number, self.players[number].record, partial(_last_words, self.players[number]))
            for number in there
        ]  # fmt: skip
        measuring = Residents(self.turns, residents, self._runs)
        stop = in_turns(
            [
                Experiment(
                    Plan((factor,), (), limits=limits), folder, measuring.measure, goal=BySize,
                    together=measuring.together,
                )
            ],
            limits.seconds,
        )  # fmt: skip
        self.tell(f"measured in turn until {stop.value}")


def _report(players: Sequence[Player], codes: Sequence[int], folder: Path) -> int:
    from busbw.analysis.comparison import Options, Side, compare_all
    from busbw.base.text import wants_colour
    from busbw.records import read_record
    from busbw.report.comparison import comparison_text

    print(f"busbw: records and tables of all libraries are in {folder}", file=sys.stderr)
    for player, code in zip(players, codes, strict=True):
        if code != 0 or not player.record.is_file():
            print(f"busbw: {player.library} ended with exit code {code}: {_last_words(player)}", file=sys.stderr)
    worst = next((code for code in codes if code != 0), 0)
    sides = [Side(player.library, (read_record(player.record),)) for player in players if player.record.is_file()]
    sides = [side for side in sides if any(case.outcome == "measured" for case in side.records[0].cases)]
    if len(sides) < 2:
        raise UserError(f"fewer than two libraries were measured, so there is nothing to compare; see {folder}")
    colour = wants_colour(sys.stdout)
    found = compare_all(sides, Options(in_turns=True))
    print("\n".join(comparison_text(each, colour=colour) for each in found), end="")
    return worst


def _without_secrets(output: Path) -> None:
    with suppress(OSError):
        hide_in_file(output)


def _last_words(player: Player) -> str:
    with suppress(OSError):
        lines = (player.folder / OUTPUT_NAME).read_text(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("busbw:")] or [line for line in lines if line.strip()]
        if said:
            return said[-1].removeprefix("busbw: ")
    return "it said nothing"
