"""What was typed, set and evaluated stands beside what a launcher did, and decides which reading of an error holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from .corpus.load import cases
from .test_clues import first

CASES = {each.name: each.text for each in cases()}


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("f139-number-not-read", "RANK=1 is set, and the launcher still got node rank 0", "NODE_RANK=1"),
        ("f139-machine-rank-alike", "the same node rank (0): gpu-a and gpu-b", "--machine_rank 1"),
        ("f139-number-of-the-batch-script", "evaluates $SLURM_NODEID itself", "single quotes"),
        ("f139-launchers-want-a-port", "srun starts 4 launchers (accelerate launch)", "Another port does not help"),
    ],
)  # fmt: skip
def test_what_the_log_shows_beside_an_error_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = first(CASES[name], tmp_path)
    assert title in found.title and fix in found.fix, (found.title, found.fix)


LATE = "torch.distributed.DistStoreError: wait timeout after 900000ms, keys: /none/torchelastic/role_info/0"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        # In quotes each task evaluates it.
        ("#SBATCH --nodes=2\nsrun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID train.py'\n" + LATE,
         "evaluates"),
        ("#SBATCH --nodes=2\nsrun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --rdzv_backend=c10d train.py\n" + LATE,
         "evaluates"),
        # Two hosts with different numbers; one host that starts again; a rank that tells of itself.
        ("a@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\na@n2:~$ torchrun --nnodes 2 --node_rank 1 t.py\n" + LATE,
         "node rank"),
        ("a@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\na@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\n" + LATE,
         "node rank"),
        ("running torchrun --nnodes 2 --node_rank 0 t.py\nRANK=0 LOCAL_RANK=0\nRANK=1 LOCAL_RANK=1\n" + LATE,
         "node rank"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it_decides_nothing(text: str, title: str, tmp_path: Path) -> None:
    assert title not in first(text, tmp_path).title
