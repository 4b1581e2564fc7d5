"""Tasks that were started as one job, each of which is an MPI world of its own."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def bears_out(groups: Sequence[Mapping[str, str]]) -> bool:
    """A process has size 1, and a larger one was awaited, or several tasks of a job without PMI say so."""
    tasks = {each["task"] for each in groups if each.get("task")}
    alone = any("alone" in each for each in groups)
    awaited = any("awaited" in each for each in groups)
    return alone and (awaited or (len(tasks) > 1 and any("none" in each for each in groups)))


SIGNATURE = Signature(
    name="worlds-of-one",
    stage=Stage.LAUNCH,
    title="each process is an MPI world of its own (size 1, rank 0): its launcher gave it no PMI",
    patterns=(
        r"^(?:\s{0,4}(?P<task>\d{1,5}): )?.{0,80}\bMPI size: (?P<alone>1), .{0,40}rank: 0\b",
        r"^(?:\s{0,4}(?P<task>\d{1,5}): )?.{0,120}\brank 0 (?:out )?of (?P<alone>1)"
        r"(?: (?:processors?|processes|ranks?))?\s*$",
        r"(?P<awaited>MPI world ?[Ss]ize is expected to be equal to tp\*pp)",
        r"(?P<awaited>mpiSize == tp ?\* ?pp)",
        r"\bMpiDefault\s{0,30}= ?(?P<none>none)\b",
    ),
    holds=bears_out,
    explains=("engine-mismatch", "gpu-memory-full", "rank-count", "port-in-use", "killed-by-launcher", "rank-ended"),
    confirm="srun --mpi=list; scontrol show config | grep MpiDefault; srun --mpi=pmix -n 2 env | grep -i pmi",
    cure=(
        "srun --mpi=pmix (srun --mpi=list shows what there is; MpiDefault=none in slurm.conf gives tasks none unless "
        "they ask), with an MPI in the image that speaks it. Or mpirun -n inside one task. Engine and GPUs are right"
    ),
    source="TensorRT-LLM (cpp/tensorrt_llm/executor, runtime/utils/mpiUtils); Slurm's MPI guide",
)
