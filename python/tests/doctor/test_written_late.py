"""Steps that stand behind the end of their job were printed before it: output that a program held back is no life."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main

from .test_cut_off import comm, loud

INIT = [comm(rank, state) for state in ("START", "COMPLETE") for rank in range(3)]
STEPS = [f"step {number} loss 2.{number} time 0.4 s" for number in range(5)]
WARNED = "n0:1:2 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 33030532 bytes"
ENDS = {
    "NCCL's call failed": [WARNED, "n0:1:2 [0] NCCL INFO init.cc:1733 -> 2"],
    "a launcher": [WARNED, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"],
    "Slurm": ["slurmstepd: error: *** JOB 91235 ON gpu-16 CANCELLED AT 2026-04-01T10:00:00 DUE TO TIME LIMIT ***"],
    "DeepSpeed": [WARNED, "['/usr/bin/python', 'train.py'] exits with return code = 1"],
    "a fatal check": [WARNED, "F0512 04:11:12.031 5512 client.h:77] Terminating process"],
}


def text(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


@pytest.mark.parametrize("name", ENDS)
def test_steps_behind_the_end_are_no_sign_of_life(name: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(text(INIT, STEPS, ENDS[name], STEPS))
    assert main(["doctor", str(path)]) == 1


@pytest.mark.parametrize(
    "again", [INIT, ["[default] Rendezvous'ing worker group"]], ids=["a new communicator", "a launcher's new start"]
)
def test_steps_of_a_job_that_began_again_are(again: list[str]) -> None:
    assert loud(text(INIT, STEPS, ENDS["NCCL's call failed"], again, STEPS)) == []


def test_an_error_that_ends_nothing_is_passed_over_where_steps_follow() -> None:
    assert loud(text(INIT, STEPS, [WARNED], STEPS)) == []
    assert loud(text(INIT, STEPS, [WARNED, "n0:1:2 [0] NCCL INFO transport/net_ib.cc:852 -> 2"], STEPS)) == []
