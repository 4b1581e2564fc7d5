"""Recordings of `busbw watch`: what a job called, as one run for each size of communicator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from busbw.importers.draft import Draft, Sink
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.values import collective_named
from busbw.records import Case, Library, Rank, Tool
from busbw.watch.gpu_times import GpuSums, GpuTimes
from busbw.watch.recording import MAGIC, SUFFIX, Header, Recording, Shape, host_ns_of, shape_of

FORMAT = "busbw recording"
MAX_RANKS = 4096
_ELEMENT = {"float32": "float", "float16": "half", "float64": "double", "float8e4m3": "f8e4m3", "float8e5m2": "f8e5m2"}
_ON_GPU = "median over calls of the shortest time of all ranks on the GPU: the transfer without the wait"
_HOST_ONLY = "median over calls of the host's time in the call; the recording has no time on the GPU"


def is_recording(path: Path) -> bool:
    """Whether a file is one, by its first bytes."""
    if path.suffix != SUFFIX:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class Jobs:
    """The calls of all processes that one import reads; `Collector` of a file or folder."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._timed, self._host_only, self._on_gpu = Calls(), Calls(), Calls()
        self._times, self._sums = GpuTimes(), GpuSums()
        self._ranks: dict[int, Rank] = {}
        self._version: str | None = None
        self._over = ""
        self._content: list[str] = []
        self._left_out: dict[str, int] = {}

    def take(self, path: Path) -> None:
        """The recording of one process."""
        with Recording(path) as recording:
            header = recording.header()
            rows = {row.place: row for row in recording.communicators()}
            who = _who(header)
            if header.nccl_version > 0:
                self._version = version_text(header.nccl_version)
            self._over = "busbw CPU library" if header.synchronous else "NCCL"
            self._place(header, who)
            self._content.append(f"{who} {header.host} {header.pid} {header.process_start} {header.calls}")
            self._leave_out("calls that the ring no longer holds", recording.overwritten())
            self._leave_out("calls that were lost for want of room", header.lost)
            self._leave_out("calls whose place a call kept that had not ended", header.overtaken)
            for _, (_, _, what, _, how) in recording.raw_calls():
                row = rows.get(what >> 48)
                self._call(shape_of(what, how), how, row.ranks if row else 0, who, synchronous=header.synchronous)

            self._gpu(recording)

    def _gpu(self, recording: Recording) -> None:
        """Collectives that all ranks have timed: the transfer, without the wait for the last rank."""
        before = -1
        while before != self._times.seen:
            before = self._times.seen
            for one in self._times.look([recording]):
                self._sums.add(one)
                if collective := collective_named(one.shape.kind):
                    type_ = _ELEMENT.get(one.shape.type, one.shape.type)
                    call = Call(collective, one.shape.bytes(one.ranks), type_, one.ranks, _variant(one.shape))
                    self._on_gpu.add(call, "all ranks", one.transfer_ns / 1000)

    def _call(self, shape: Shape, how: int, ranks: int, who: str, *, synchronous: bool) -> None:
        host_ns, flags = host_ns_of(how), how >> 13 & 7
        collective = collective_named(shape.kind)
        if collective is None:
            self._leave_out("sends, receives and signals", 1)
        elif not 0 < ranks <= 1 << 20:
            self._leave_out("calls on a communicator that is not in the recording", 1)
        elif flags & 5 or host_ns is None:
            self._leave_out("calls captured into a graph, refused, or not come back", 1)
        else:
            size = shape.bytes(ranks)
            call = Call(collective, size, _ELEMENT.get(shape.type, shape.type), ranks, _variant(shape))
            # In a group the call only notes down what is to be done.
            is_timed = synchronous and not how >> 36 & 0xFFF
            (self._timed if is_timed else self._host_only).add(call, who, host_ns / 1000)

    def _place(self, header: Header, who: str) -> None:
        number = header.launched_rank
        if 0 <= number < MAX_RANKS and len(self._ranks) < MAX_RANKS:
            self._ranks[number] = Rank(number, header.host or who, pid=header.pid)

    def _leave_out(self, what: str, calls: int) -> None:
        if calls:
            self._left_out[what] = self._left_out.get(what, 0) + calls

    def close(self) -> None:
        """All recordings are read."""
        left_out = [f"{count:,} {what} are left out" for what, count in self._left_out.items()]
        if not any(len(each) for each in (self._timed, self._host_only, self._on_gpu)):
            self._sink.problem(None, "a recording without collectives" + "".join(f"; {why}" for why in left_out))
            return
        by_ranks: dict[int | None, list[Case]] = {}
        for ranks, cases in self._timed.by_ranks():
            by_ranks.setdefault(ranks, []).extend(cases)
        for ranks, cases in self._on_gpu.by_ranks():
            by_ranks.setdefault(ranks, []).extend(_gpu_time(case) for case in cases)
        for ranks, cases in self._host_only.by_ranks():
            by_ranks.setdefault(ranks, []).extend(_host_time(case) for case in cases)
        notes = list(left_out)
        if len(self._timed):
            notes.append("times are those of a running job: they hold the wait for ranks that came later")
            notes += self._timed.slow_ranks()
        if len(self._host_only):
            notes.append("calls came back before they had run: their cases have the host's time in the call only")
        if share := self._sums.share():
            notes.append(share)
        around = self._sink.sweep_starts()
        for ranks, cases in by_ranks.items():
            draft = Draft(FORMAT, Tool("busbw watch"), 1, cases[0].collective, cases=cases, rows=len(cases))
            draft.size, draft.notes = ranks, list(notes)
            draft.library = Library(self._over, version=self._version)
            if len(self._ranks) == ranks:
                draft.ranks = tuple(self._ranks[number] for number in sorted(self._ranks))
            draft.content = [f"{ranks}", *sorted(self._content)]
            self._sink.sweep_ends(draft, around)


def _variant(shape: Shape) -> str | None:
    """What else tells calls of one size apart: a root that is not the first rank."""
    return f"root {shape.root}" if shape.root else None


def _host_time(case: Case) -> Case:
    """Without a time of the collective: what was measured is how long the host was in the call."""
    return Case(
        run="", case=0, collective=case.collective, bytes=case.bytes, placement=None, outcome="measured",
        type=case.type, variant=case.variant, iterations=case.iterations, cpu_time_us=case.time_us,
        context={**case.context, "times": "host"}, conversion=_HOST_ONLY,
    )  # fmt: skip


def _gpu_time(case: Case) -> Case:
    """The wait for ranks that came later is taken off."""
    return replace(case, context={**case.context, "times": "gpu"}, conversion=_ON_GPU)


def _who(header: Header) -> str:
    if header.launched_rank >= 0:
        return f"rank {header.launched_rank}"
    return f"process {header.pid} of {header.host}"


def version_text(code: int) -> str:
    """NCCL's version of its number: 22809 is 2.28.9; 2.8 and before are 2804."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
