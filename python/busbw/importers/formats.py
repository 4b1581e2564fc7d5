"""The list of formats: a new one is its file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from busbw.importers import (
    comms_json,
    comms_logger,
    communicators,
    deepspeed,
    drawn,
    et_replay,
    flat_json,
    flight_recorder,
    gloo,
    hccl,
    imb,
    inspector,
    kineto,
    line_tools,
    mscclpp_json,
    nccl_tests_json,
    nccl_tests_text,
    nccom,
    osu,
    pairs,
    param,
    superbench,
    tables,
    torch_average,
    torch_bench,
    ucc,
)  # fmt: skip
from busbw.importers.draft import Sink


class LineParser(Protocol):
    """Reads the lines of one rank's output in one format."""

    def feed(self, line: str, number_: int, /) -> bool:
        """Take one line; whether it belongs to this format."""

    def close(self) -> None:
        """The output ends."""


@dataclass(frozen=True)
class LineFormat:
    """A format that is read line by line; `starts` are texts one of which every table of it begins with."""

    name: str
    make: Callable[[Sink], LineParser]
    starts: tuple[str, ...]
    markdown_only: bool = False
    line_before: bool = False
    """Whether the line before its first one belongs to it."""


@dataclass(frozen=True)
class DocumentFormat:
    """A format that is one document, recognised by how the file begins."""

    name: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str, Sink], None]
    max_bytes: int


LINE_FORMATS: tuple[LineFormat, ...] = (
    LineFormat(nccl_tests_text.FORMAT, nccl_tests_text.Parser, ("#", ": Test ")),
    LineFormat(line_tools.TORCH_AVERAGES, line_tools.Averages, ("tput_avg (Gbps):", "data size:")),
    LineFormat(torch_bench.FORMAT, torch_bench.PerRank,
               ("algo throughput:", "duration:", "busbw:", "data size:", "trial-"), line_before=True),
    LineFormat(torch_bench.FORMAT, torch_bench.Table, ("| payload", "software:", "The average bandwidth of")),
    LineFormat(torch_bench.FORMAT, torch_average.Average, ("The average bandwidth of", "algbw:", "busbw:")),
    LineFormat(deepspeed.FORMAT, deepspeed.Parser, ("Performance of",)),
    LineFormat(osu.FORMAT, osu.Parser, ("# OSU ", "# OMB-Py ")),
    LineFormat(mscclpp_json.FORMAT, mscclpp_json.Parser, ('"busBw"',)),
    LineFormat(imb.FORMAT, imb.Parser, ("# Benchmarking", "Intel(R) MPI Benchmarks")),
    LineFormat(ucc.FORMAT, ucc.Parser, ("Collective:",)),
    LineFormat(param.FORMAT, param.Parser, ("COMMS-RES", "groupSize ", "world_size")),
    LineFormat(comms_logger.FORMAT, comms_logger.Parser, ("Comm. Op", "comm op: ")),
    LineFormat(inspector.FORMAT, inspector.Parser, ('"coll_perf"', '"p2p_perf"')),
    LineFormat(nccom.FORMAT, nccom.Parser, ("nccom-test", "count(elems)")),
    LineFormat(hccl.FORMAT, hccl.Parser, ("data_size",)),
    LineFormat(gloo.FORMAT, gloo.Parser, ("Algorithm: ", "Options: ", "p50 (us)")),
    LineFormat(line_tools.HCCL_DEMO, line_tools.Demo, ("[BENCHMARK]",)),
    LineFormat(line_tools.MPIBENCH, line_tools.MpiBench, ("Bytes:",)),
    LineFormat(communicators.FORMAT, communicators.Parser, (communicators.START,)),
    LineFormat(pairs.FORMAT, pairs.Parser, pairs.STARTS),
    LineFormat(drawn.FORMAT, drawn.Parser, drawn.STARTS),
    LineFormat(tables.FORMAT, tables.Parser, ("**", "|", "#"), markdown_only=True),
)  # fmt: skip

DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = (
    DocumentFormat(
        nccl_tests_json.FORMAT, nccl_tests_json.looks_like, nccl_tests_json.parse, nccl_tests_json.MAX_BYTES
    ),
    DocumentFormat(
        flight_recorder.FORMAT, flight_recorder.looks_like, flight_recorder.parse, flight_recorder.MAX_BYTES
    ),
    DocumentFormat(et_replay.FORMAT, et_replay.looks_like, et_replay.parse, et_replay.MAX_BYTES),
    DocumentFormat(kineto.FORMAT, kineto.looks_like, kineto.parse, kineto.MAX_BYTES),
    DocumentFormat(inspector.FORMAT, inspector.looks_like, inspector.parse, inspector.MAX_BYTES),
    DocumentFormat(superbench.FORMAT, superbench.looks_like, superbench.parse, superbench.MAX_BYTES),
    DocumentFormat(comms_json.FORMAT, comms_json.looks_like, comms_json.parse, comms_json.MAX_BYTES),
    DocumentFormat(flat_json.FORMAT, flat_json.looks_like, flat_json.parse, flat_json.MAX_BYTES),
)
