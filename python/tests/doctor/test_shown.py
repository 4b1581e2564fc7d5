"""What a log shows beside a slow job's figures: the cause stands first, and who lies apart is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.host_tables import apart
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.smi_rows import spelled

from .corpus.load import cases

MINE = {each.name: each for each in cases() if each.name.startswith("s101-")}


def loud(folder: Path, *texts: str) -> list[Finding]:
    paths = [folder / f"part{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=tuple(map(str, paths))))))
    return [each for each in found if each.severity is not Severity.NOTE]


def test_a_port_stands_before_the_pairs_that_are_slow_by_it(tmp_path: Path) -> None:
    first, second = loud(tmp_path, MINE["s101-pairs-and-port"].text)
    assert "mlx5_1 of cq05 runs at 50 Gb/s" in first.title
    assert second.name == "slow-host" and second.title.startswith("cq05 is 3.1 times slower")
    assert second.fix.startswith("mend port-slower first: ")


def test_large_pings_that_are_lost_are_no_missing_route_in_whatever_file_the_small_ones_are(tmp_path: Path) -> None:
    lost, _, small = MINE["s101-ping-jumbo"].text.partition("r1$ ping -c 2")
    (one,) = loud(tmp_path, lost, "r1$ ping -c 2" + small)
    assert one.name == "mtu-path" and "packets of 9000 bytes" in one.title
    # Where nothing comes back at all, the route is what is missing.
    assert [each.name for each in loud(tmp_path, lost, "")] == ["no-route"]


def test_the_processors_of_a_loader_are_named_where_the_log_tells_them(tmp_path: Path) -> None:
    (one,) = loud(tmp_path, MINE["s101-timm-one-core"].text)
    assert one.title.endswith(": 12 loaders share 2 processors") and "--cpus-per-task" in one.fix


def test_steps_that_wait_for_their_data_for_a_third_of_their_time_are_no_finding(tmp_path: Path) -> None:
    line = "Epoch: [0][{:4d}/900]\tTime  0.300 ( 0.31)\tData  0.100 ( 0.10)\tLoss 2.1\n"
    assert loud(tmp_path, "".join(map(line.format, range(0, 200, 10)))) == []


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        ([f"node{n}  {v} TFLOPS" for n, v in enumerate([690, 688, 450, 691, 689])], ["node2"]),
        ([f"a{n:02d}x <-> b{n:02d}x: {v} Gb/s" for n, v in enumerate([391, 388, 96, 390, 389])], []),
        ([f"ha{n} <-> hb{n} : {v} Gb/s" for n, v in enumerate([391, 388, 96, 390, 389])], ["ha2 and hb2"]),
        ([f"rank {n}: step_ms={v}" for n, v in enumerate([391, 388, 910, 390, 389])], ["rank 2"]),
        # Two kinds of machines, and figures that lie far from each other anyway.
        ([f"node{n}  {v} TFLOPS" for n, v in enumerate([690, 688, 250, 251, 689])], []),
        ([f"node{n}  {v} GB/s" for n, v in enumerate([690, 488, 250, 351, 589])], []),
        ([f"node{n}  {v} TFLOPS" for n, v in enumerate([690, 688, 450])], []),
    ],
)
def test_who_lies_apart_in_a_table_is_named(lines: list[str], who: list[str]) -> None:
    assert [each.who for each in apart(lines)] == who


def test_a_gpu_is_beside_others_what_it_is_not_alone() -> None:
    head = "index, clocks.sm, utilization.gpu [%], power.limit [W]"
    rows = ["0, 1980 MHz, 99 %, 700.00 W", "1, 1980 MHz, 98 %, 700.00 W", "2, 705 MHz, 99 %, 350.00 W"]
    said = spelled([head, *rows, "", "2, 705 MHz, 99 %, 350.00 W"])
    assert "of GPU 2: " in said[3] and "GPU clocks are limited to 705 MHz, others run at 1980 MHz" in said[3]
    assert "GPU power is limited to 350 W, others to 700 W" in said[3]
    assert not any("limited" in each for each in said[:3]) and said[5] == "2, 705 MHz, 99 %, 350.00 W"
    assert not any("limited" in each for each in spelled([head, rows[2]]))
    # It rests.
    assert not any("clocks are limited" in each for each in spelled([head, *rows[:2], "2, 345 MHz, 0 %, 700.00 W"]))


def test_a_debug_build_is_told_only_of_a_run_that_is_slow(tmp_path: Path) -> None:
    log = MINE["s101-debug-build-table"].text
    assert loud(tmp_path, log)[0].name == "slowed-by"
    assert loud(tmp_path, log[: log.index("# nThread")]) == []


def test_channels_of_a_job_over_sockets_are_no_finding_of_their_own(tmp_path: Path) -> None:
    names = [each.name for each in loud(tmp_path, MINE["s101-pods-without-rdma-table"].text)]
    assert names[0] == "network-interface" and "few-channels" not in names
