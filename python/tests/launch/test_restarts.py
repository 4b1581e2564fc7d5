"""A job that Slurm starts again keeps what its first start measured, in the same record as a run of its own."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import JOB, PLAIN

from busbw.cli.launching import join_starts
from busbw.launch import sbatch
from busbw.launch.job import JobSpec
from busbw.records import read_records

EXAMPLE = Path(__file__).resolve().parents[3] / "schema" / "examples" / "all_reduce-v1.jsonl"


def requeued(job: JobSpec, record: Path) -> JobSpec:
    return replace(job, arguments=("all_reduce", "--record", str(record)), slurm=replace(job.slurm, requeue=True))


def test_only_a_job_that_may_start_again_is_prepared_for_it() -> None:
    assert "#SBATCH --no-requeue" in sbatch.script(JOB) and "RESTART" not in sbatch.script(JOB)
    script = sbatch.script(requeued(JOB, Path("/shared/it's one/record.jsonl")))
    assert "#SBATCH --requeue\n#SBATCH --open-mode=append\n" in script
    assert "RESTART" not in sbatch.script(replace(PLAIN, slurm=replace(PLAIN.slurm, requeue=True))), "without a record"


@pytest.mark.parametrize("count", ["", "0", "1", "2"])
def test_a_second_start_moves_the_first_record_aside(count: str, tmp_path: Path) -> None:
    record = tmp_path / "it's $(one)" / "record.jsonl"
    record.parent.mkdir()
    record.write_text("first\n")
    lines = "\n".join(sbatch.restart(requeued(PLAIN, record)))
    environ = {"BUSBW_RUN_ID": "r"} | ({"SLURM_RESTART_COUNT": count} if count else {})
    done = subprocess.run(
        ["sh", "-c", f'{lines}\necho "$BUSBW_RUN_ID"'],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    again = count in {"1", "2"}
    assert done.stdout == (f"r-restart-{count}\n" if again else "r\n")
    assert record.exists() is not again
    assert [path.read_text() for path in record.parent.glob("*before-restart*")] == (["first\n"] if again else [])


def kept(path: Path, run: str) -> Path:
    name = read_records(EXAMPLE)[0].run.run
    path.write_text(EXAMPLE.read_text().replace(name, run))
    return path


def test_every_start_is_a_run_in_the_order_of_the_starts(tmp_path: Path) -> None:
    record = kept(tmp_path / "record.jsonl", "r-restart-10")
    for number, run in ((1, "r"), (2, "r-restart-1"), (10, "r-restart-9")):
        kept(tmp_path / f"record.jsonl.before-restart-{number}", run)
    join_starts(record)
    assert [each.run.run for each in read_records(record)] == ["r", "r-restart-1", "r-restart-9", "r-restart-10"]
    assert [path.name for path in tmp_path.iterdir()] == ["record.jsonl"]


def test_a_start_that_cannot_be_read_stays_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = kept(tmp_path / "record.jsonl", "r-restart-1")
    before = record.read_text()
    part = tmp_path / "record.jsonl.before-restart-1"
    part.write_text("no record\n")
    join_starts(record)
    assert part.exists() and record.read_text() == before
    err = capsys.readouterr().err
    assert "what was measured before the second start stays in" in err and err.count("\n") == 1


def test_a_start_that_was_killed_gets_the_end_that_it_could_not_write(tmp_path: Path) -> None:
    record = kept(tmp_path / "record.jsonl", "r-restart-1")
    first = kept(tmp_path / f"record.jsonl{sbatch.EARLIER}1", "r")
    first.write_text("".join(line for line in first.read_text().splitlines(True) if '"kind":"end"' not in line))
    assert read_records(first)[0].end is None
    join_starts(record)
    killed, ended = read_records(record)
    assert killed.end and killed.end.outcome == "interrupted" and killed.end.cases == len(killed.cases) > 0
    assert "Slurm put the job back" in (killed.end.reason or "") and killed.notes == ()
    assert ended.end and ended.end.outcome == "completed"
