"""A launcher that binds each rank to one core, in which its data loaders have to run too."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_TITLE = "each rank is bound to one core: its data loaders and NCCL's proxy threads wait for that one"
_ONE = r"\W{0,3}\(?(?:0|\d{1,9})?\)?\s?(?:[:=]|is)?\s?[\[{(](?P<core>\d{1,4}),?[\]})]"
"""A set of one processor, as Python prints it."""
_WHO = r"(?:\[rank ?(?P<who>\d{1,7})(?:/\d{1,7})?\].{0,80}?)?\b"
_MANY = 2
"""Workers for each processor from which on they wait for each other."""


def _holds(groups: Groups) -> bool:
    """Whether ranks are bound to one core, and a program that is bound so found too few of the host's processors."""
    said = {name for each in groups for name in each}
    return (
        _crowded(groups) is not None
        or {"core", "few"} <= said
        or ("core" in said and any(int(each.get("all", "1")) > 1 for each in groups))
    )


def _crowded(groups: Groups) -> tuple[int, int] | None:
    """Of a rank's own line its processors, where they are few of the host's, and the workers that outnumber them."""
    for each in groups:
        if "cpus" in each and "workers" in each:
            cpus = len(each["cpus"].split(","))
            if int(each["workers"]) >= _MANY * cpus and cpus < int(each.get("all", "100000")):
                return cpus, int(each["workers"])
    return None


def tell(groups: Groups) -> str:
    """Which ranks share that core, where programs print what they may use."""
    sharing: dict[str, list[str]] = {}
    for each in groups:
        if "who" in each and "core" in each:
            sharing.setdefault(each["core"], []).append(each["who"])
    if (crowded := _crowded(groups)) is not None and not any(len(set(ranks)) > 1 for ranks in sharing.values()):
        cpus, workers = crowded
        where = "one core" if cpus == 1 else f"{cpus} processors"
        return f"each rank is bound to {where}, which it shares with its {workers} data loaders: GPUs wait for data"
    core, ranks = max(sharing.items(), key=lambda pair: len(pair[1]), default=("", []))
    if len(set(ranks)) < 2:
        return _TITLE
    total = next((f" of {each['all']}" for each in groups if "all" in each), "")
    named = ", ".join(sorted(set(ranks), key=int)[:8])
    return f"rank {named} share one core (number {core}{total}): all of them and their data loaders wait for it"


SIGNATURE = Signature(
    name="core-bound",
    stage=Stage.LAUNCH,
    severity=Severity.WARNING,
    title=_TITLE,
    patterns=(
        # Open MPI --report-bindings: one core in the whole list of a rank.
        r"\] (?:MCW )?rank \d{1,7}\b.{0,12} bound to "
        r"(?P<core>(?:socket|package)[\[ ]\d{1,3}\]?\[core:? ?L?\d{1,4}(?:\[hwt:? ?[\d-]{1,9}\])?\])(?:: |:?\s*$)",
        # srun --cpu-bind=verbose: a mask of one processor.
        r"cpu-bind(?:-cores|-threads|-ldoms)?=MASK - .{1,120}: mask (?P<core>0x[0,]*[1248][0,]*)(?: set)?\s*$",
        # os.sched_getaffinity(0) or psutil's cpu_affinity, beside the number of processors where a program prints both.
        rf"{_WHO}cpu_?count(?:\(\))?\W{{1,4}}(?P<all>\d{{1,4}})\b.{{0,60}}\b(?:sched_get|cpu_)?affinity{_ONE}",
        # A program's own line of processors, affinity and workers.
        rf"{_WHO}(?:(?:host )?cpus?(?:_?count)?\W{{1,3}}(?P<all>\d{{1,4}})\b.{{0,40}}?)?\baffinity\W{{0,3}}"
        r"[\[{(](?P<cpus>\d{1,4}(?:, ?\d{1,4}){0,7}),?[\]})]"
        r".{0,60}?\b(?:num_|n_)?workers?\W{1,3}(?P<workers>\d{1,3})\b",
        rf"{_WHO}(?:sched_get|cpu_)affinity{_ONE}",
        r"\bCpus_allowed_list:\s{1,8}(?P<core>\d{1,4})\s*$",
        r"suggested max number of worker in current system is (?P<few>[12])\b",
        r"current affinity list: (?P<few>\d{1,4}(?:,\d{1,4})?)\s*$",
    ),
    confirm="mpirun --report-bindings; taskset -cp PID of a rank; nproc within the job",
    cure=(
        "mpirun --bind-to none, or --map-by ppr:8:node:PE=12 --bind-to core for several cores of each rank; srun "
        "--cpu-bind=none or --cpus-per-task. No taskset to one core around the launcher, and more cores in the cgroup "
        "or pod. A rank needs the cores of its GPU's NUMA node, not one of them"
    ),
    cost="GPUs wait for data and NCCL's proxy for the processor: often a third of the speed",
    tell=tell,
    source="Open MPI: --bind-to core is its default for two ranks; PyTorch: DataLoader's warning",
    holds=_holds,
)
