"""A scheduler keeps the job in its queue for a reason that waiting alone does not end."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_STUCK = (
    r"PartitionTimeLimit|PartitionNodeLimit|PartitionDown|PartitionInactive|BadConstraints|DependencyNeverSatisfied"
    r"|AccountNotAllowed|Invalid(?:Account|QOS)|QOSNotAllowed|JobHeld(?:User|Admin)|NodeDown|ReservationDeleted"
    r"|(?:launch failed|user env retrieval failed) requeued held|ReqNodeNotAvail\b[^()]{0,160}"
    r"|Nodes required for job are DOWN, DRAINED[^()]{0,80}"
)
"""Reasons of Slurm that no free node ends; Priority, Resources, Dependency and BeginTime pass by themselves."""
_MANY = 6
"""More rows than that are of a whole cluster, and not of one job."""


def is_of_others(groups: Groups, lines: int) -> bool:
    """Whether the list is of a whole cluster: it is looked at, and is not what failed."""
    return lines > _MANY


def tell(groups: Groups) -> str:
    """With the scheduler's reason."""
    why = next((each["why"] for each in groups if "why" in each), "")
    return f"the job waits in the queue for what does not come by itself: {why}"


SIGNATURE = Signature(
    name="job-pending",
    stage=Stage.FAILURE,
    severity=Severity.WARNING,
    title="the job waits in the queue for what does not come by itself",
    patterns=(
        # Rows of squeue, and scontrol show job.
        rf"\bPD +[\d:-]{{4,12}} +\d{{1,6}} +\((?P<why>{_STUCK})\)",
        rf"\bJobState=PENDING Reason=(?P<why>{_STUCK})",
        # qstat -f of PBS; bjobs -l of LSF; qstat -j of SGE.
        r"\bcomment = (?P<why>Can Never Run: .{5,120})",
        r"^\s{0,8}(?P<why>Host's available GPU resources cannot meet.{0,60}"
        r"|Job(?:'s)? requirements? for (?:reserving )?resources? .{0,60}not satisfied.{0,40}"
        r"|Specified hosts? .{0,40}not (?:available|usable).{0,40})",
        r"\"statusReason\" ?: ?\"(?P<why>MISCONFIGURATION:.{5,160}?)\"",
        r"^error reason +\d{1,6}: +.{0,60}error: (?P<why>.{5,120})",
    ),
    soft=True,
    light=is_of_others,
    tell=tell,
    confirm="scontrol show job JOB (Slurm), qstat -f (PBS), bjobs -l (LSF), qstat -j (SGE)",
    cure=(
        "look at what the reason names and ask for what the queue can give: scontrol show job and sinfo, qstat -f and "
        "pbsnodes, bjobs -l and bhosts"
    ),
    cost="the job never starts",
    source="Slurm's job_reasons; PBS's comment; LSF's pending reasons; SGE's error states",
)
