"""A bundle tells what its logs tell: lines that a finding rests on are kept, tables are read, and no more is."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor import bundled as module
from busbw.doctor.bundled import bundled
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.bundle import read_bundle
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.reading.tables import tables_in

STEPS = "".join(f"[rank{rank}] it {step} loss 6.9{step} 2.6 ms\n" for step in range(40) for rank in (0, 1))
APART = "".join(
    f"[rank{rank}]:[E1130 09:56:38.2 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
    f"timeout: WorkNCCL(SeqNum=52, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size}, Timeout(ms)=10000) ran for 10021 "
    "milliseconds before timing out.\n"
    for rank, size in ((0, 4097000), (1, 1))
)
SKIPPED = "[rank1] WARNING it 40: shard 3 is empty, api_key=hunter2hunter2\n"
HEAD = "reading /home/someone/of-no-concern.txt\n"
LOG = f"{HEAD}{STEPS}{SKIPPED}{APART}"
ROW = (
    "{size:12d} {count:13d}     float     sum      -1   6018.0   22.30   39.03      0   6018.0   22.30   39.03      0\n"
)
TABLE = (
    "# nThread 1 nGpus 1 minBytes 67108864 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0\n#\n# Using devices\n"
    + "".join(
        f"#  Rank {n:2d} Group  0 Pid   494{n} on a1 device  {n} [0x6{n}] NVIDIA H100 80GB HBM3\n" for n in range(8)
    )
    + "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  "
    "(GB/s)  (GB/s)\n"
    + "".join(ROW.format(size=4 * count, count=count) for count in (16777216, 33554432))
    + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 38.97\n"
)


def titles(snapshot: Snapshot) -> list[str]:
    return [each.title for each in examine(gather(snapshot)) if each.severity is not Severity.NOTE]


def test_lines_of_a_program_that_a_finding_rests_on_are_kept_without_their_secrets() -> None:
    given = Snapshot("here", logs=(TextFile("job.log", LOG),))
    kept = bundled(given, ())
    text = kept.snapshot.logs[0].text or ""
    assert kept.is_whole
    assert titles(kept.snapshot) == titles(given)
    assert "rank 1 alone said" in titles(given)[0]
    assert "shard 3 is empty" in text
    assert "hunter2hunter2" not in text
    assert "of-no-concern" not in text


def test_that_less_is_told_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text(LOG)
    monkeypatch.setattr(module, "_AROUND", ())
    assert main(["doctor", "--collect", str(tmp_path / "b.tar.gz"), "--log", str(tmp_path / "job.log")]) == 0
    assert "it tells less than the logs" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(["doctor", "--collect", str(tmp_path / "b.tar.gz"), "--log", str(tmp_path / "job.log")]) == 0
    assert "it tells less" not in capsys.readouterr().err


def test_hangs_that_are_told_in_words_beside_a_matrix_stay_in_a_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, bundle = tmp_path / "job.log", tmp_path / "b.tar.gz"
    log.write_text(
        "Two cards of this box: sendrecv_perf hangs forever.\n\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
        "GPU0\t X \tPIX\tPIX\t0-15\nGPU1\tPIX\t X \tPIX\t0-15\nWith NCCL_P2P_DISABLE=1 it works.\n"
    )
    assert main(["doctor", "--collect", str(bundle), "--log", str(log)]) == 0
    assert "it tells less" not in capsys.readouterr().err
    log.unlink()
    assert main(["doctor", str(bundle)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "p2p-hangs" in said
    assert "GPU0 and GPU1 (PIX)" in said
    assert "GPU2" not in said


@pytest.mark.parametrize(("limit", "kept"), [("_MOST_BYTES", True), ("_TWICE_BYTES", False)])
def test_large_logs_are_examined_twice_and_larger_ones_keep_what_is_known_to_matter(
    limit: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, len(LOG) - 1)
    bundle = bundled(Snapshot("here", logs=(TextFile("job.log", LOG),)), ())
    text = bundle.snapshot.logs[0].text or ""
    assert bundle.is_whole is (True if kept else None)
    assert ("shard 3 is empty" in text) is kept
    assert "SeqNum=52" in text
    assert "hunter2hunter2" not in text


def test_tables_of_a_bundle_are_judged_where_no_such_file_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, bundle = tmp_path / "job.log", tmp_path / "b.tar.gz"
    log.write_text(TABLE)
    assert main(["doctor", str(log)]) == 1
    assert "below-expected" in capsys.readouterr().out
    assert main(["doctor", "--collect", str(bundle), "--log", str(log)]) == 0
    assert "busbw" in (read_bundle(bundle).logs[0].text or "")
    # Another file of that name is none of the bundle's.
    log.write_text("hello\n")
    capsys.readouterr()
    assert main(["doctor", str(bundle)]) == 1
    assert "below-expected" in capsys.readouterr().out


def test_where_no_file_can_be_written_tables_of_a_bundle_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    records, said = tables_in((TextFile("job.log", TABLE),))
    assert records == ()
    assert said == ["job.log: tables of results were not looked for: No space left on device"]
