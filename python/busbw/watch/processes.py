"""The processes of a job at one moment: how far each has come, by its recording, and what /proc says of it."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path

from busbw.watch.containers import begun_at, is_ours
from busbw.watch.grown import two_names
from busbw.watch.links import Link
from busbw.watch.makings import Making
from busbw.watch.messages import NONE, Messages, messages_of
from busbw.watch.pulses import Pulse
from busbw.watch.recording import COLLECTIVES, Communicator, Header, Recording, Shape, shape_of

HISTORY = 4096
"""So many of a process's newest calls are compared with those of others."""
MOST_OVER = 64
_TURNS, _RECENT = 3, 16
_MAX_ENVIRON = 1 << 20
_MAX_THREADS = 1024
RUNNING, STOPPED, TRACED, GONE, EXITED = "running", "stopped", "in a debugger", "gone", "exited"
FROZEN = "frozen by its control group, as a container that is paused"
_IN_FREEZER = frozenset({"__refrigerator", "do_freezer_trap"})
REPLACED = "another program now, by a call of exec"


@dataclass(frozen=True)
class Process:
    """One process of the job at one moment."""

    name: str
    pid: int
    host: str
    state: str
    communicators: tuple[Communicator, ...]
    history: Mapping[int, Mapping[int, Shape]] = field(default_factory=dict)
    """Of each communicator's place, the newest collectives by their number."""
    gpus: bool = False
    """Its communicators' devices are GPUs."""
    start: int = 0
    """Clock ticks after boot, by which the process is told from another one of that number."""
    is_here: bool = True
    """/proc of this host speaks of it."""
    grouped: Mapping[int, int] = field(default_factory=dict)
    """Of each place, how many calls the group of its newest call has so far; 0 outside of groups."""
    busy: float | None = None
    """Part of a processor that it has used since nothing moves."""
    turn_s: float | None = None
    """How long it uses a processor until it gives it up by itself: who waits looks for data and sleeps again."""
    links: tuple[Link, ...] = ()
    """Its connections that do not get on."""
    over: tuple[Communicator, ...] = ()
    """Those that it has destroyed, aborted or revoked, what was ended last first."""
    making: Making | None = None
    """The communicator in whose making it is."""
    refused: Making | None = None
    """The last one that NCCL refused to make for it."""
    pulses: Mapping[int, Pulse] = field(default_factory=dict)
    """Of each place how far the GPU has come, where it was asked since the last call there."""
    is_new_turn: bool = False
    """Lately a collective followed one of a communicator after which none of that communicator ever came else, though
    there were several."""
    messages: Messages = NONE
    """The newest ones, where history was asked for."""
    is_leaving: bool = False
    """It has begun its exit, and is there yet."""
    silent_s: float = 0.0
    """For so long the watcher of its host has written nothing; 0 while it writes."""

    @property
    def key(self) -> tuple[str, int, int]:
        """Equal for one process, wherever it is read of."""
        return self.host, self.pid, self.start


def snapshot(recordings: Iterable[Recording], *, with_history: bool = False) -> list[Process]:
    """What the recordings and /proc say now; history is for a verdict, and costs more."""
    found = []
    headers = [(recording.header(), recording) for recording in recordings]
    newest = {_program_of(head): head.monotonic_ns for head, _ in sorted(
        headers, key=lambda each: each[0].monotonic_ns)}  # fmt: skip
    for header, recording in headers:
        # A process that called exec is another program now: what the former one recorded is over.
        if newest[_program_of(header)] != header.monotonic_ns:
            continue
        every = [row for row in recording.communicators() if row.ranks > 1]
        rows = tuple(row for row in every if row.ended == "alive")
        ended = sorted((row for row in every if row.ended != "alive"), key=lambda row: (row.ended_ns, row.place))
        over = tuple(reversed(ended[-MOST_OVER:]))
        state = state_now(header)
        if with_history and state == RUNNING and is_here(header) and _has_left(recording, header.pid):
            state = REPLACED
        if with_history and state == RUNNING and is_here(header) and is_frozen(header.pid):
            state = FROZEN
        is_leaving = state == EXITED and is_here(header) and state_of(header.pid, header.process_start) != GONE
        pulses = {} if header.synchronous else recording.pulses()
        entered = {row.place: row.entered for row in rows}
        first = header.calls - HISTORY + 1
        newest_calls = list(recording.raw_calls(first)) if with_history else []
        history, grouped, is_new_turn = _history(newest_calls)
        found.append(
            Process(
                str(header.launched_rank), header.pid, header.host, state, rows, history,
                gpus=not header.synchronous, start=header.process_start, is_here=is_here(header), grouped=grouped,
                over=over, is_new_turn=is_new_turn, is_leaving=is_leaving, making=recording.making(),
                refused=recording.refused(), messages=messages_of(newest_calls, first),
                pulses={place: each for place, each in pulses.items() if entered.get(place) == each.entered},
            )
        )  # fmt: skip
    return joined(found)


def joined(processes: list[Process]) -> list[Process]:
    """With one identity for all ranks of a communicator that was grown."""
    names = two_names(row for process in processes for row in (*process.communicators, *process.over))

    def named(rows: tuple[Communicator, ...]) -> tuple[Communicator, ...]:
        return tuple(replace(row, identity=names.get(row.identity, row.identity)) for row in rows)

    if not names:
        return processes
    return [replace(each, communicators=named(each.communicators), over=named(each.over)) for each in processes]


def _program_of(header: Header) -> tuple[str, int, int, int]:
    """Equal for what one process was before and after exec."""
    return header.host, header.pid_namespace, header.pid, header.process_start


def _history(
    calls: Iterable[tuple[int, tuple[int, ...]]],
) -> tuple[dict[int, dict[int, Shape]], dict[int, int], bool]:
    """Shapes of the newest collectives of each place, how long the group of its newest call is, and `is_new_turn`."""
    history: dict[int, dict[int, Shape]] = defaultdict(dict)
    group_of: dict[int, int] = {}
    lengths: dict[int, int] = {}
    known: dict[tuple[int, int], Shape | None] = {}
    last = 0
    places: list[int] = []
    for _, (_, sequence, what, _, how) in calls:
        group = how >> 36 & 0xFFF
        # Numbers of groups come round: what is not the newest group is over.
        if group:
            lengths[group] = lengths[group] + 1 if group == last and group in lengths else 1
        last = group_of[what >> 48] = group
        # Without the duration: a job repeats few shapes many times, and this runs while people wait for a verdict.
        alike = (what, how & 0xFFFFFFFFF)
        if alike not in known:
            shape = shape_of(what, how)
            known[alike] = shape if shape.kind in COLLECTIVES else None
        if found := known[alike]:
            history[what >> 48][sequence] = found
            places.append(what >> 48)
    return history, {place: lengths[group] if group else 0 for place, group in group_of.items()}, is_new_turn(places)


def is_new_turn(places: Sequence[int]) -> bool:
    """Whether one of the last turns from communicator to communicator came once, where others came several times.

    A rank that leaves a call out, or makes one more, often comes some calls further before it waits.
    """
    turns, followed = Counter(pairwise(places)), Counter(places[:-1])
    newest = pairwise(places[-_RECENT - 1 :])
    return any(turns[turn] == 1 and followed[turn[0]] > _TURNS for turn in newest)


def state_now(header: Header) -> str:
    """Of the process of a recording. What runs on another host, or among other process numbers, is taken to run."""
    if header.ended:
        return EXITED
    return state_of(header.pid, header.process_start) if is_here(header) else RUNNING


def _has_left(recording: Recording, pid: int) -> bool:
    """Whether the process no longer has its recording in memory, as after exec; False where /proc does not say."""
    if not recording.is_mapped():
        return False
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    return bool(maps) and os.fsencode(recording.path.name) not in maps


def is_here(header: Header) -> bool:
    """Whether /proc of this host speaks of the recording's process."""
    return header.seen_here or is_ours(header.host, header.pid_namespace)


def state_of(pid: int, start: int) -> str:
    """What /proc says of a process; `start` tells it from another one that has its number now."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        letter, begun = words[0].decode(), int(words[19])
    except (OSError, IndexError, ValueError):
        return GONE
    if start and begun != start:
        return GONE
    if letter == "Z":
        letter = _of_other_threads(pid)
    return {"T": STOPPED, "t": TRACED, "Z": GONE, "X": GONE}.get(letter, RUNNING)


def _of_other_threads(pid: int) -> str:
    """The state of a process whose first thread has ended: it lives as long as another one does."""
    found = set()
    for each in islice(Path(f"/proc/{pid}/task").glob("[0-9]*/stat"), _MAX_THREADS):
        with suppress(OSError, IndexError):
            found.add(each.read_bytes().rpartition(b")")[2].split()[0].decode())
    found -= {"Z", "X"}
    return found.pop() if len(found) == 1 else "S" if found else "Z"


def is_frozen(pid: int) -> bool:
    """Whether its control group's freezer holds it: /proc says "sleeping" of it, or "waits for a disk"."""
    try:
        # Where it sleeps, of the user's own processes; else what the control groups of this host say.
        if Path(f"/proc/{pid}/wchan").read_text(encoding="ascii", errors="replace") in _IN_FREEZER:
            return True
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    for _, controllers, path in (line.split(":", 2) for line in groups if line.count(":") > 1):
        try:
            if not controllers and "frozen 1" in Path(f"/sys/fs/cgroup{path}/cgroup.events").read_text().splitlines():
                return True
            if (
                controllers == "freezer"
                and Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").read_text() != "THAWED\n"
            ):
                return True
        except (OSError, ValueError):
            continue
    return False


def processor_s(pid: int) -> float | None:
    """Processor time that a process has used."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def turns(pid: int) -> tuple[float, int] | None:
    """Of all threads: processor time in s, and how often they gave the processor up by themselves, to wait."""
    used_ns = gave_up = 0
    try:
        with os.scandir(f"/proc/{pid}/task") as threads:
            for _, thread in zip(range(_MAX_THREADS), threads, strict=False):
                used_ns += int(Path(thread.path, "schedstat").read_bytes().split()[0])
                status = Path(thread.path, "status").read_bytes().partition(b"\nvoluntary_ctxt_switches:")[2]
                gave_up += int(status.split(maxsplit=1)[0])
    except (OSError, IndexError, ValueError):
        return None
    return used_ns / 1e9, gave_up


def waited_ns(pid: int) -> int | None:
    """How long the first thread of a process was ready to run and had no processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def left_behind(folder: Path, since: int = 0) -> dict[int, int]:
    """Processes of this user that were started to record into the folder and are still there, as daemons are: when each
    began, by its number, where that is not before `since`."""
    wanted = b"\0BUSBW_RECORD_DIR=" + os.fsencode(folder) + b"\0"
    found = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal():
            continue
        try:
            with (path / "environ").open("rb") as file:
                is_wanted = wanted in b"\0" + file.read(_MAX_ENVIRON)
            if is_wanted and (begun := begun_at(int(path.name))) is not None and begun >= since:
                found[int(path.name)] = begun
        except OSError:
            continue
    return found


def progress(processes: Sequence[Process]) -> tuple[tuple[object, ...], ...]:
    """Changes whenever a call begins or returns anywhere, or a communicator comes or goes."""
    return (
        *((*p.key, row.place, row.entered, row.returned) for p in processes for row in p.communicators),
        # One of a single rank moves nobody else.
        *((*p.key, p.making.since_ns) for p in processes if p.making and p.making.ranks != 1),
        # One that comes or goes, as a program's last.
        *((*p.key, len(p.over)) for p in processes if p.over),
        *((*p.key, p.is_leaving) for p in processes if p.state == EXITED),
    )


def as_now(before: Process, now: Process) -> Process:
    """A process as it was with what it called, and how it and its GPU are now."""
    # Both are looked for only with what was called.
    stays = now.state == RUNNING and before.state in {REPLACED, FROZEN}
    return replace(before, state=before.state if stays else now.state, is_leaving=now.is_leaving, pulses=now.pulses)


def monotonic_ns() -> int:
    """The clock of the recordings."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
