"""Ranks that a command starts: the innermost launcher counts, variables are filled in, the hidden stays unknown."""

# ruff: noqa: E501 - commands as people write them

from __future__ import annotations

import pytest

from busbw.importers.context import read_command

SBATCH = "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n"
BENCH = "all_reduce_bench.py"


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        (f"srun --nodes=2 --ntasks-per-node=1 bash -c 'torchrun --nnodes 2 --nproc_per_node 8 {BENCH}'", 16),
        ("srun --nodes=2 --ntasks-per-node=8 bash -c 'source env.sh && ./build/all_gather_perf -b 1M -g 1'", 16),
        ('docker run --gpus all image bash -lc "mpirun -np 8 all_reduce_perf_mpi -b 1M -g 1"', 8),
        (f"pdsh -w n[1-2] bash -c 'cd x; torchrun --nproc-per-node=8 --nnodes=2 {BENCH}'", 16),
        (
            SBATCH + "export GPUS_PER_NODE=8\n"
            f'srun bash -c "python -m torch.distributed.run --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES {BENCH}"',
            32,
        ),
        (
            SBATCH + "GPUS=8\nNNODES=$SLURM_NNODES\n"
            'LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS --nnodes $NNODES"\n'
            f"srun --jobid $SLURM_JOBID bash -c \"$LAUNCHER --node_rank \\$SLURM_PROCID {BENCH}\"",
            32,
        ),
        (f'srun -N 2 -n 2 bash -c "$LAUNCHER --node_rank 0 {BENCH}"', None),
        (f"srun -N 2 -n 2 torchrun --nproc_per_node $GPUS --nnodes 2 {BENCH}", None),
        ("mpirun -np $NP ./all_reduce_perf -g 1", None),
        ("srun -N $NODES --ntasks-per-node=8 ./all_reduce_perf -g 1", None),
        ("srun -N 2 --ntasks-per-node=${TASKS} ./all_reduce_perf -g 1", None),
    ],
)  # fmt: skip
def test_ranks_of_a_script(script: str, ranks: int | None) -> None:
    command = read_command(script.splitlines())
    assert command is not None and command.ranks == ranks


def test_variables_that_name_each_other_end() -> None:
    command = read_command(["A=$B$B", "B=$A$A", "mpirun -np $A ./all_reduce_perf -g 1"])
    assert command is not None and command.ranks is None
