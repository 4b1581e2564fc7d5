"""A file system makes the job wait, and comes back."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _is_back(groups: Sequence[Mapping[str, str]], _count: int) -> bool:
    """Whether each server that is named as lost is named as back, too; or nothing but that was said, as by a mount."""
    lost = {each["lost"] for each in groups if "lost" in each}
    back = {each["back"] for each in groups if "back" in each}
    slow = any("slow" in each for each in groups)  # before a connection is given up its replies are slow
    return bool(back) and lost <= back and (bool(lost) or not slow)


SIGNATURE = Signature(
    name="file-system-stall",
    stage=Stage.SYSTEM,
    title="a file system makes the job wait: its servers answer late or were out of reach for a time",
    patterns=(
        r"Lustre: .{0,160}Connection to (?P<lost>\S{2,80}) .{0,80}was lost; in progress operations",
        r"Lustre: .{0,160}Connection restored to (?P<back>\S{2,80})",
        r"Lustre: .{0,200}(?P<slow>timed out for (?:slow reply|sent delay))",
        r"(?P<slow>lease renewal is overdue)",
        r"nfs: server (?P<lost>\S{1,80}) not responding, still trying",
        r"nfs: server (?P<back>\S{1,80}) OK\b",
        r"\b(?:beegfs|wekafs\w*|ceph)\b.{0,120}(?P<slow>slow (?:requests?|ops)|unresponsive)",
    ),
    explains=("kernel-hang",),
    light=_is_back,
    confirm="`dmesg -T | grep -i -e lustre -e nfs -e mmfs`; the load of the file servers at that time",
    cure="look at the servers that are named and at the way to them; copy the data to local disks before the run",
    cost="ranks that read or write wait, and all others wait for them",
    severity=Severity.WARNING,
    source="Lustre: ptlrpc and import messages; GPFS and Ceph's own words",
)
