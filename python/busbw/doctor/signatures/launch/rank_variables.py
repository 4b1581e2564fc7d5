"""The launcher's variables are missing."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="rank-variables",
    stage=Stage.LAUNCH,
    title=(
        "the variables of the launcher are missing: the program was not started by torchrun, srun or mpirun, or uses "
        "the process group before init_process_group"
    ),
    patterns=(
        r"Horovod has not been initialized",
        r"environment variable \w+ expected, but not set",
        r"(?:\bRANK['\"]?|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK)['\"]? .{0,30}(?:not set|is missing)",
        r"KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
        r"LOCAL_RANK is not in the environment",
        r"unrecognized arguments: --local[-_]rank",
        r"Error initializing torch\.distributed using",
        r"Default process group (?:has not been|is not) initialized",
    ),
    confirm="env | grep -e RANK -e WORLD_SIZE -e MASTER",
    cure=(
        "start it with torchrun (or python -m torch.distributed.run), or export RANK, WORLD_SIZE, "
        "LOCAL_RANK, MASTER_ADDR and MASTER_PORT in each process; call init_process_group before the first collective"
    ),
    source="torch/distributed/rendezvous.py",
)
