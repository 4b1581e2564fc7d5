"""CUDA in a forked process."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cuda-fork",
    stage=Stage.PROGRAM,
    title="a process was forked after CUDA was initialised, or CUDA cannot be initialised in it",
    patterns=(
        r"create new processes if CUDA is already initialized",
        r"CUDA has been initialized before the .{0,30}could create a forked",
        r"Cannot re-initialize CUDA in forked",
        r"Cuda failure (?:3 )?'?initialization error",
        r"CUDA error: initialization error",
    ),
    confirm="where the program calls fork or multiprocessing before the ranks start",
    cure=(
        "start processes with spawn: torch.multiprocessing.set_start_method('spawn'), "
        "VLLM_WORKER_MULTIPROC_METHOD=spawn; touch no CUDA call before"
    ),
    source="CUDA error 3",
)
