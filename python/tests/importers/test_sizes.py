"""Sizes with their unit in the cell, in a title, or as elements of a type; and factors that are no times."""

from __future__ import annotations

import pytest
from test_import_files import read

HEAD = "# all_reduce, 8 GPUs\n\n| Size | Time (ms) | AlgBW (GB/s) |\n|---|---|---|\n"


def sizes(text: str, name: str = "r.md") -> list[int]:
    records, _ = read(text.encode(), name)
    return [case.bytes for record in records for case in record.cases]


@pytest.mark.parametrize(
    ("million", "expected"), [(1e6, [4000, 1_000_000, 16_000_000]), (1 << 20, [4096, 1 << 20, 16 << 20])]
)
def test_sizes_of_one_table_are_all_powers_of_1000_or_none(million: float, expected: list[int]) -> None:
    rows = "".join(
        f"| {size} MB | {time} | {size * million / time / 1e6:.2f} |\n" for size, time in ((1, 0.125), (16, 0.8))
    )
    assert sizes(f"{HEAD}| 4 KB | 0.02 | 0.20 |\n{rows}") == expected


def test_elements_are_a_size_where_time_and_bandwidth_bear_it_out() -> None:
    head = "collective,ranks,numel,dtype,time_us,algbw_GBps\n"
    assert sizes(f"{head}all_reduce,8,262144,torch.float32,100.0,10.486\n", "r.csv") == [1 << 20]
    assert sizes(f"{head}all_gather,8,32768,torch.float32,100.0,10.486\n", "r.csv") == []
    assert sizes("collective,ranks,numel,dtype,time_us\nall_gather,8,32768,float32,100.0\n", "r.csv") == []


def test_factors_below_times_are_no_times() -> None:
    times = "All times are in milliseconds.\n\n| Size | NCCL | Custom |\n|---|---|---|\n| 1 MB | 0.03 | 0.02 |\n"
    factors = "\n### {}\n\n| Size | Custom | Other |\n|---|---|---|\n| 1 MB | 1.5 | 2.5 |\n"
    title = "# all_reduce, 4 GPUs\n\n"
    assert len(sizes(f"{title}{times}")) == 2
    for said in ("Speedup vs NCCL", "Ratio", "Relative to NCCL"):
        assert len(sizes(f"{title}{times}{factors.format(said)}")) == 2


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("--- AllReduce (1048576 bytes, 8 PEs) ---", [1 << 20]),
        ("=== all_reduce 16 MiB ===", [16 << 20]),
        ("--- AllReduce (1 MB) to (16 MB) ---", []),
        ("=== all_reduce on H100 80GB ===", []),
        ("- GPU memory: 80 GB", []),
    ],
)
def test_a_title_names_the_size_of_the_names_below_it(title: str, expected: list[int]) -> None:
    time = f"  Avg time: {sum(expected) / 1e8:.4f} ms\n" if expected else ""
    assert sizes(f"all_reduce\n{title}\n{time}  Bus BW: 175.0 GB/s\n", "job.log") == expected


@pytest.mark.parametrize(("words", "expected"), [("@ 256MB", [256 << 20] * 2), ("@ 1MB and @ 2MB", []), ("", [])])
def test_the_one_size_of_rows_of_ranks_stands_above(words: str, expected: list[int]) -> None:
    table = "| world | bus_bw (GB/s) |\n|---|---|\n| 8 | 190.5 |\n| 16 | 95.1 |\n"
    assert sizes(f"### All-Reduce {words}\n\n{table}") == expected


def test_a_bandwidth_that_is_a_little_off_makes_no_megabyte_a_million() -> None:
    rows = "| 16 MB | 0.8000 | 20.00 |\n| 64 MB | 3.2000 | 20.40 |\n"
    assert sizes(HEAD + rows) == [16 << 20, 64 << 20]


@pytest.mark.parametrize(
    ("title", "ranks"),
    [
        ("all_reduce, 8x H100", 8), ("all_reduce on 8 H100 80GB", 8), ("all_reduce, CUDA 12 H100", None),
        ("all_reduce, 2 nodes x 8 GPUs", 16), ("all_reduce on 4 H100 nodes", None), ("all_reduce, ROCm 6 MI300X", None),
    ],
)  # fmt: skip
def test_a_number_before_a_model_is_that_of_gpus_where_words_say_so(title: str, ranks: int | None) -> None:
    records, _ = read(f"# {title}\n\n| Size | Time (us) |\n|---|---|\n| 1 MB | 30.5 |\n".encode(), "r.md")
    assert {case.ranks for record in records for case in record.cases} == {ranks}
