"""The torch all_reduce_bench that prints one size: a sentence, then both bandwidths."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.importers import import_path
from busbw.records import Record

SAID = (
    "The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 16 ranks):",
    " algbw: 44.947 GBps (359.6 Gbps)",
    " busbw: 84.275 GBps (674.2 Gbps)",
)


def records(path: Path, *lines: str) -> list[Record]:
    path.write_text("\n".join(lines) + "\n")
    found: list[Record] = []
    import_path(path, lambda sweep: found.append(sweep.record()))
    return found


@pytest.mark.parametrize("prefix", ["", "[node-1:0]:"])
def test_size_ranks_and_rates_are_the_sentences(prefix: str, tmp_path: Path) -> None:
    lines = ["0", "1", *SAID]
    (record,) = records(tmp_path / "bench.txt", *(f"{prefix}{line}" for line in lines))
    (case,) = record.cases
    assert (case.collective, case.bytes, case.ranks, case.iterations) == ("all_reduce", 4_000_000_000, 16, 5)
    assert (case.algbw_GBps, case.busbw_GBps) == (44.947, 84.275)
    assert case.time_us == pytest.approx(4e9 / 44.947e3, rel=1e-6)


def test_a_sentence_without_its_bandwidths_gives_no_figures(tmp_path: Path) -> None:
    (record,) = records(tmp_path / "bench.txt", SAID[0], "nothing", *SAID)
    assert len(record.cases) == 1
