"""Too little shared memory (/dev/shm), as containers have it by default."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity

NAME = "shared-memory"
# NCCL asks for 9637888 bytes per connection of its SHM transport ("failed to extend /dev/shm/nccl-... to 9637892").
CONNECTION_MIB = 9.2
CHANNELS = 2


def examine(facts: Facts) -> Iterator[Finding]:
    host, machine = facts.snapshot.host, facts.machine
    if host is None or host.shm_total_MiB is None or machine is None or len(machine.gpus) < 2:
        return
    free = host.shm_free_MiB if host.shm_free_MiB is not None else host.shm_total_MiB
    # Every rank sends and receives over rings in both directions.
    needed = CONNECTION_MIB * CHANNELS * 2 * len(machine.gpus)
    if free >= needed:
        return
    without_p2p = facts.whole("NCCL_P2P_DISABLE") == 1
    direct = machine.all_nvlink and not without_p2p
    light = Severity.NOTE if direct and free >= 16 else Severity.WARNING
    yield Finding(
        NAME,
        Severity.ERROR if without_p2p else light,  # all pairs go through it then, and the job ends
        f"/dev/shm has {free:.0f} MiB free of {host.shm_total_MiB:.0f} MiB",
        (Evidence(f"about {needed:.0f} MiB wanted for {len(machine.gpus)} ranks over SHM", "/dev/shm"),),
        Cost("none while every pair has P2P" if direct else "NCCL fails: no space left on device"),
        f"give the container at least that much (--shm-size={max(1, math.ceil(needed / 1024))}g; Kubernetes: an "
        "emptyDir with medium: Memory at /dev/shm); ranks of one host in several containers need one IPC namespace: "
        "--ipc=host",
        Proof(instruction="start the container with more shared memory and measure again"),
    )
