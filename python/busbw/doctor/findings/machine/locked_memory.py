"""A limit on locked memory that RDMA registrations will meet."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity

NAME = "locked-memory"
ENOUGH_KIB = 1 << 20


def examine(facts: Facts) -> Iterator[Finding]:
    host = facts.snapshot.host
    if host is None or host.memlock_KiB is None or host.memlock_KiB >= ENOUGH_KIB or not facts.has_rdma:
        return
    yield Finding(
        NAME,
        Severity.WARNING,
        f"locked memory is limited to {host.memlock_KiB:.0f} KiB",
        (Evidence(f"RLIMIT_MEMLOCK is {host.memlock_KiB:.0f} KiB", "ulimit -l"),),
        Cost("RDMA registrations fail, or NCCL falls back to sockets"),
        "ulimit -l unlimited, in limits.conf or with the container's --ulimit memlock=-1",
        Proof(instruction="raise the limit and run on two nodes"),
    )
