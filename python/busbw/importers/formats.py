"""The list of formats: a new one is its file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from busbw.importers import deepspeed, mscclpp_json, nccl_tests_json, nccl_tests_text, osu, tables, torch_bench
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


@dataclass(frozen=True)
class DocumentFormat:
    """A format that is one document, recognised by how the file begins."""

    name: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str, Sink], None]
    max_bytes: int


LINE_FORMATS: tuple[LineFormat, ...] = (
    LineFormat(nccl_tests_text.FORMAT, nccl_tests_text.Parser, ("#", ": Test ")),
    LineFormat(torch_bench.FORMAT, torch_bench.PerRank,
               ("algo throughput:", "duration:", "busbw:", "data size:", "trial-")),
    LineFormat(torch_bench.FORMAT, torch_bench.Table, ("| payload", "software:", "The average bandwidth of")),
    LineFormat(deepspeed.FORMAT, deepspeed.Parser, ("Performance of",)),
    LineFormat(osu.FORMAT, osu.Parser, ("# OSU ",)),
    LineFormat(mscclpp_json.FORMAT, mscclpp_json.Parser, ('"busBw"',)),
    LineFormat(tables.FORMAT, tables.Parser, ("**", "|", "#"), markdown_only=True),
)  # fmt: skip

DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = (
    DocumentFormat(
        nccl_tests_json.FORMAT, nccl_tests_json.looks_like, nccl_tests_json.parse, nccl_tests_json.MAX_BYTES
    ),
)
