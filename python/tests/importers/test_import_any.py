"""Whatever stands in a file, it ends in records or a sentence, and soon."""

from __future__ import annotations

from contextlib import suppress
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_import_files import HEADER, SAMPLES, read

from busbw.base.errors import UserError
from busbw.importers.nccl_tests_rows import DEFAULT_LAYOUT, cut, layout_of

words = st.lists(
    st.sampled_from(["8", "2", "float", "sum", "-1", "1.5", "N/A", "1e+07", "none", "0", "nan", "x", "-", "9" * 30]),
    max_size=24,
).map(" ".join)


@given(words)
def test_a_row_is_cut_into_all_columns_or_refused(line: str) -> None:
    row = cut(line, DEFAULT_LAYOUT)
    assert row is None or len(row.groups) == 2


@given(st.integers(1, 1 << 40), st.floats(0.01, 1e8))
@example(68, 0.125)
def test_what_nccl_tests_prints_is_read_as_printed(size: int, time: float) -> None:
    # Of a sendrecv, which is not checked in place: its bus bandwidth is its algorithm bandwidth.
    algbw = busbw = size / time / 1000
    group = f"  {time:7.2f}  {algbw:6.2f}  {busbw:6.2f}  {0:6}"
    line = f"{size:12}  {size:12}  {'int8':>8}  {'max':>6}  {-1:6}{group}{group[:-8]}    N/A\n"
    records, _ = read(HEADER + b"".join((line.encode(), b"# Avg bus bandwidth    : 1\n")))
    first, second = records[0].cases
    assert (first.bytes, first.time_us, first.algbw_GBps) == (size, float(f"{time:.2f}"), float(f"{algbw:.2f}"))
    assert second.busbw_GBps == float(f"{busbw:.2f}") and second.wrong is None and second.placement == "in_place"


@given(st.text(max_size=120))
@example("# size time algbw busbw " + "time " * 50)
def test_any_text_is_a_header_or_none(text: str) -> None:
    layout = layout_of(text, text)
    assert layout is None or len(layout.groups) == len(layout.placements)


SEEDS = [path.read_bytes() for path in sorted(SAMPLES.iterdir())]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SEEDS),
    st.sampled_from(SEEDS),
    st.integers(0, 4000),
    st.integers(0, 4000),
    st.binary(max_size=12),
    st.sampled_from(["a.md", "a.log", "a.json"]),
)
def test_any_mixture_of_samples_ends_in_records_or_a_sentence(
    one: bytes, other: bytes, at: int, start: int, noise: bytes, name: str
) -> None:
    with suppress(UserError):
        _, report = read(one[:at] + noise + other[start:], name)
        assert "\n" not in report.summary()


@given(st.binary(max_size=400))
def test_any_bytes_end_in_records_or_a_sentence(data: bytes) -> None:
    with suppress(UserError):
        read(data)


@pytest.mark.parametrize(
    "text",
    [
        "\\n" * 30000,
        ("\\n" + "x" * 30) * 2000,
        "1 GB/s busbw " * 70,
        "x {" + "'a':[" * 700,
        "size = 1 " * 20 + "= busbw",
        'x_benchmark.trainer INFO: time: 0.15\n:::LOG {"time_ms": 9, "key": "step", "value": 8}\n' * 1000,
    ],
)
def test_lines_made_to_be_slow_are_read_as_fast_as_others(text: str) -> None:
    started = process_time()
    with suppress(UserError):
        read(f"busbw=1\n{text}\n".encode())
    assert process_time() - started < 2
