"""A file system makes the job wait, and comes back."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="file-system-stall",
    stage=Stage.SYSTEM,
    title="a file system makes the job wait: its servers answer late or were out of reach for a time",
    patterns=(
        r"Lustre: .{0,200}(?:was lost; in progress operations|timed out for (?:slow reply|sent delay))",
        r"lease renewal is overdue",
        r"nfs: server .{0,60}not responding, still trying",
        r"\b(?:beegfs|wekafs\w*|ceph)\b.{0,120}(?:slow (?:requests?|ops)|unresponsive)",
    ),
    explains=("kernel-hang",),
    confirm="`dmesg -T | grep -i -e lustre -e nfs -e mmfs`; the load of the file servers at that time",
    cure="look at the servers that are named and at the way to them; copy the data to local disks before the run",
    cost="ranks that read or write wait, and all others wait for them",
    severity=Severity.WARNING,
    source="Lustre: ptlrpc and import messages; GPFS and Ceph's own words",
)
