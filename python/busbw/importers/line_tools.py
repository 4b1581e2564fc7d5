"""Tools that print a measurement in one line or two: hccl_demo of Gaudi, LLNL's mpiBench, averages of torch."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, bandwidths, op_of_collective
from busbw.importers.values import ELEMENT_BYTES, collective_named, number, whole
from busbw.records import Case, Library, Tool

HCCL_DEMO = "hccl_demo"
MPIBENCH = "mpiBench"
TORCH_AVERAGES = "averages of a torch benchmark"

_DEMO = re.compile(
    r"\s*\[BENCHMARK\] hccl(\w{3,30})\((?:[^)]{0,60}, )?(?:data_?[sS]ize=(\d{1,18}), )?"
    r"count=(\d{1,18}), dtype=(\w{2,20})"
)
_DEMO_RATE = re.compile(r"\s*\[BENCHMARK\]\s+(NW|Algo) Bandwidth\s*: ([\d.]{1,20}) (GB|MB)/s")
_MPIBENCH = re.compile(
    r"\s*(\w{3,30})\s+Bytes:\s+(\d{1,18})\s+Iters:\s+\d{1,12}\s+Avg:\s+([\d.]{1,20})\s+Min:\s+([\d.]{1,20})\s+Max:\s+([\d.]{1,20})"
    r"\s+Comm: \S{1,80}\s+Ranks: (\d{1,7})"
)
_AVERAGES = re.compile(r"\s*tput_avg \(Gbps\): ([\d.]{1,30}),?\s+busbw_avg \(Gbps\): ([\d.]{1,30})\s*$")
_DATA_SIZE = re.compile(r"\s*(?:\S{1,80} )?data size: (\d{1,9}(?:\.\d{1,9})?) GB\s*$")
_TYPES = {"bfloat16": "bfloat16", "float": "float", "bf16": "bfloat16", "float32": "float"}


class Demo:
    """hccl_demo: its NW bandwidth of all_reduce is nccl-tests' bus bandwidth."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._call: re.Match[str] | None = None
        self._rates: dict[str, float] = {}

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        call, rate = _DEMO.match(line), _DEMO_RATE.match(line)
        if call:
            self._call, self._rates = call, {}
            return True
        value = number(rate[2]) if rate and self._call else None
        if rate is None or value is None:
            return False
        self._rates[rate[1]] = value / (1 if rate[3] == "GB" else 1000)
        if len(self._rates) == 2:
            self._row(line, number_)
        return True

    def _row(self, line: str, number_: int) -> None:
        call = self._call
        assert call is not None
        self._call = None
        if collective_named(call[1]) != "all_reduce":
            self._sink.problem(number_, f"hccl_demo's {call[1][:30]}: only its sizes of AllReduce are nccl-tests'")
            return
        dtype = _TYPES.get(call[4])
        size = whole(call[2] or "") or (whole(call[3]) or 0) * ELEMENT_BYTES.get(dtype or "", 0)
        if not size:
            self._sink.problem(number_, f"hccl_demo's size is not known: {call[0].strip()[:80]!r}")
            return
        if self._table.draft is None:
            draft = Draft(HCCL_DEMO, Tool("hccl_demo"), number_, "all_reduce", library=Library("HCCL"))
            self._table.open(draft, self._sink.sweep_starts())
        algbw, busbw = self._rates["Algo"], self._rates["NW"]
        self._table.add(
            Case(
                run="", case=0, collective="all_reduce", bytes=size, placement=None, outcome="measured",
                time_us=round(size / algbw / 1000, 3) if algbw > 0 else None, algbw_GBps=algbw, busbw_GBps=busbw,
                count=whole(call[3]), type=dtype, op="sum",
            ),
            f"{call[0].strip()} {algbw} {busbw}",
        )  # fmt: skip

    def close(self) -> None:
        """The output ends."""
        self._table.close()


class MpiBench:
    """mpiBench: a line for each size, with the number of ranks; times in microseconds."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        found = _MPIBENCH.match(line)
        if found is None:
            return False
        collective, ranks = collective_named(found[1]), whole(found[6])
        size, times = whole(found[2]), [number(cell) or 0.0 for cell in found.groups()[2:5]]
        if collective not in ("all_reduce", "broadcast", "reduce", "barrier") or size is None:
            self._sink.problem(number_, f"mpiBench's {found[1]}: whether its bytes are one rank's part is not known")
            return True
        draft = self._table.draft
        if draft is None or (draft.collective, draft.size) != (collective, ranks):
            self._table.open(
                Draft(MPIBENCH, Tool("mpiBench"), number_, collective, size=ranks, library=Library("MPI")),
                self._sink.sweep_starts(),
            )
        algbw, busbw = bandwidths(collective, size, times[0], ranks)
        self._table.add(
            Case(
                run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured", time_us=times[0],
                algbw_GBps=algbw, busbw_GBps=busbw, range={"time_us": (times[1], times[2])},
                op=op_of_collective(collective), conversion="bandwidths from the mean of the times",
            ),
            line.strip(),
        )  # fmt: skip
        return True

    def close(self) -> None:
        """The output ends."""
        self._table.close()


class Averages:
    """`tput_avg (Gbps): ... busbw_avg (Gbps): ...` below a line with the size, as scripts print."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._size: int | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        sized = _DATA_SIZE.match(line)
        self._size = round(float(sized[1]) * 1e9) if sized else self._size
        found = _AVERAGES.match(line)
        if found is None:
            return False
        throughput, busbw, size = number(found[1]), number(found[2]), self._size
        if not size or not throughput or not busbw:
            self._sink.problem(number_, f"averages without a `data size` above them: {shortened(line.strip(), 80)!r}")
            return True
        # A throughput that counts send plus receive is above the bus bandwidth, which is (n-1)/n of it.
        doubled = busbw < throughput
        algbw = throughput / 8 / (2 if doubled else 1)
        part = busbw / 8 / algbw / 2
        ranks = round(1 / (1 - part)) if 0.4 < part < 1 - 1e-6 else None
        sure = ranks is not None and ranks >= 2 and abs(1 / (1 - part) - ranks) < 0.01
        draft = Draft(
            TORCH_AVERAGES, Tool("torch all_reduce_bench"), number_, "all_reduce", rows=1, content=[line.strip()],
            counted=ranks if sure else None,
        )  # fmt: skip
        draft.cases.append(
            Case(
                run="", case=0, collective="all_reduce", bytes=size, placement="in_place", outcome="measured", op="sum",
                time_us=round(size / algbw / 1000, 3), algbw_GBps=round(algbw, 6), busbw_GBps=round(busbw / 8, 6),
                conversion="Gbps by 8" + (", throughput halved (it counts send plus receive)" if doubled else ""),
            )
        )  # fmt: skip
        self._sink.sweep_ends(draft, self._sink.sweep_starts())
        return True

    def close(self) -> None:
        """The output ends."""
