"""Ranks that disagree on how many or who they are."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="rank-count",
    stage=Stage.LAUNCH,
    title=("ranks disagree on their number or have the same rank: world size, rank or unique id is wrong on some"),
    patterns=(
        r"mpiSize == \w|[Ww]orld ?size \(?\d+\)? (?:must|should|is not|does not|is less|is smaller).{0,60}",
        r"divisible by .{0,30}(?:tensor|pipeline|data|expert)[ _-](?:model[ _-])?parallel",
        r"divisible by (?:the )?(?:total |number of )?(?:n(?:um)?_?gpus|n_?nodes|gpus|nodes|ranks|processes)\b",
        r"Invalid world.?size",
        r"world_size \(\d+\) is less than (?:than )?max local gpu count",
        r"World size \(\d+\) is larger than the number of available GPUs",
        r"Mesh should not be bigger than default world size",
        r"(?:inconsistent|different|mismatch\w*|wrong) world.?size",
        r"rank should be in range \[",
        r"mismatch in (?:rank count|info) from procs",
        r"rank \d+ of \d+ ranks has already checked in",
        r"Invalid rank requested",
        r"improper usage of ncclCommInitRank",
        r"localId \d+ is out of range",
        r"world_size.{0,40}(?:mismatch|does not match|but got)",
        r"rank \d+ (?:is )?(?:out of range|>= world)",
        r"duplicate rank",
        r"You set `\S+` in your SLURM .{0,40}not supported",
        r"number of (?:tasks|nodes|GPUs).{0,30} configured in SLURM .{0,60}does not match",
        r"rank \d+ exceeds",
        r"invalid rank \d+",
        r"global rank .{0,40}(?:must be|out of)",
        r"train_batch_size is not equal to micro_batch_per_gpu",
        r"world.?size \(?\d+\)? is not divisible",
        r"is not divisible by (?:weight quantization block|min_thread_[nk])",
    ),
    unless=("checkpoint tag name",),
    confirm="print RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT on every node",
    cure=(
        "give every process its own RANK below one WORLD_SIZE: torchrun --nnodes and --nproc-per-node the same on all "
        "nodes, another --node-rank (machine_rank) on each, and one MASTER_PORT per job"
    ),
    source="NCCL src/bootstrap.cc, src/init.cc",
)
