"""A launcher that binds each rank to one core, in which its data loaders have to run too."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether ranks are bound to one core, and a program that is bound so found too few processors."""
    said = {name for each in groups for name in each}
    return {"core", "few"} <= said


SIGNATURE = Signature(
    name="core-bound",
    stage=Stage.LAUNCH,
    severity=Severity.WARNING,
    title="each rank is bound to one core: its data loaders and NCCL's proxy threads wait for that one",
    patterns=(
        # Open MPI --report-bindings: one core in the whole list of a rank.
        r"\] (?:MCW )?rank \d{1,7}\b.{0,12} bound to "
        r"(?P<core>(?:socket|package)[\[ ]\d{1,3}\]?\[core:? ?L?\d{1,4}(?:\[hwt:? ?[\d-]{1,9}\])?\])(?:: |:?\s*$)",
        # srun --cpu-bind=verbose: a mask of one processor.
        r"cpu-bind(?:-cores|-threads|-ldoms)?=MASK - .{1,120}: mask (?P<core>0x[0,]*[1248][0,]*)(?: set)?\s*$",
        r"suggested max number of worker in current system is (?P<few>[12])\b",
        r"current affinity list: (?P<few>\d{1,4}(?:,\d{1,4})?)\s*$",
    ),
    confirm="mpirun --report-bindings; taskset -cp PID of a rank; nproc within the job",
    cure=(
        "mpirun --bind-to none, or --map-by ppr:8:node:PE=12 --bind-to core for several cores of each rank; srun "
        "--cpu-bind=none or --cpus-per-task. A rank needs the cores of its GPU's NUMA node, not one of them"
    ),
    cost="GPUs wait for data and NCCL's proxy for the processor: often a third of the speed",
    source="Open MPI: --bind-to core is its default for two ranks; PyTorch: DataLoader's warning",
    holds=_holds,
)
