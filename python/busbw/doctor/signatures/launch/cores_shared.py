"""Two ranks of a host that their launcher binds to one core."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _shared(groups: Groups) -> tuple[str, list[str]]:
    """A core with its ranks, where there are several on one host; one that was started again counts once."""
    ranks: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in groups:
        if "core" in each and "rank" in each:
            ranks[each.get("host", ""), each["core"]].add(each["rank"])
    worst = max(ranks.items(), key=lambda pair: len(pair[1]), default=None)
    return ("", []) if worst is None or len(worst[1]) < 2 else (worst[0][0], sorted(worst[1], key=int))


def tell(groups: Groups) -> str:
    """Which ranks."""
    host, ranks = _shared(groups)
    return f"ranks {', '.join(ranks[:8])} of {host or 'a host'} are bound to one core: each waits for the other"


SIGNATURE = Signature(
    name="cores-shared",
    stage=Stage.LAUNCH,
    severity=Severity.WARNING,
    title="two ranks of a host are bound to one core",
    patterns=(
        # Open MPI --report-bindings: one core in the whole list of a rank.
        r"\[(?P<host>[\w.-]{1,80}):\d{1,9}\] (?:MCW )?rank (?P<rank>\d{1,7})\b.{0,12} bound to "
        r"(?P<core>(?:socket|package)[\[ ]\d{1,3}\]?\[core:? ?\d{1,4}(?:\[hwt:? ?[\d-]{1,9}\])?\])(?:: |:?$|\s*$)",
        # PRRTE: package[0][core:L0] or package[0][core:0].
        r"\[(?P<host>[\w.-]{1,80}):\d{1,9}\] Rank (?P<rank>\d{1,7}) bound to "
        r"(?P<core>package\[\d{1,3}\]\[(?:core|hwt):L?\d{1,4}\])\s*$",
        # srun --cpu-bind=verbose: a mask of one processor.
        r"cpu-bind(?:-cores|-threads|-ldoms)?=MASK - (?P<host>[\w.-]{1,80}), task +(?P<rank>\d{1,7}) +\d{1,5} "
        r"\[\d{1,9}\]: mask (?P<core>0x[0,]*[1248][0,]*)(?: set)?\s*$",
    ),
    confirm="mpirun --report-bindings; taskset -cp PID; nproc within the job",
    cure=(
        "mpirun --bind-to none or --bind-to numa, srun --cpu-bind=none or --cpus-per-task with several cores for each "
        "rank: NCCL's proxy and CUDA's threads need some beside the rank's own"
    ),
    cost="NCCL's proxy thread waits for the processor: a fraction of the bandwidth between nodes, with much jitter",
    source="Open MPI and PRRTE: --report-bindings; Slurm: --cpu-bind=verbose",
    tell=tell,
    holds=lambda groups: bool(_shared(groups)[1]),
)
