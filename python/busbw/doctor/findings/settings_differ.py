"""A variable of NCCL that has different values on ranks of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.nccl.log_model import Variable

NAME = "settings-differ"
# They name a device or file of the rank or host itself, or change nothing that others see.
_OWN = ("FILE", "IFNAME", "HCA", "DEBUG", "DUMP", "HOSTID", "COMM_ID", "CUDA_VISIBLE_DEVICES", "PATH", "PLUGIN")


def examine(facts: Facts) -> Iterator[Finding]:
    values: dict[str, dict[str, tuple[str, Variable]]] = defaultdict(dict)
    for log in facts.logs:
        for each in log.variables:
            if not each.name.endswith(_OWN) and each.name.startswith("NCCL_"):
                # NCCL ends the sentence of a number with a point, and older versions do not.
                values[each.name].setdefault(each.value.rstrip(". "), (log.source, each))
    for name, found in values.items():
        if len(found) < 2:
            continue
        places = tuple(
            Evidence(f"{name}={value}", source, each.line) for value, (source, each) in list(found.items())[:4]
        )
        # Programs set some variables for one of their communicators, on all ranks alike.
        by_itself = sum(bool(each.before) for _, each in found.values()) == len(found) - 1
        yield Finding(
            NAME, Severity.NOTE if by_itself else Severity.WARNING,
            f"{name} has {len(found)} values: {', '.join(list(found)[:4])}"
            + (" (the program changes it between communicators)" if by_itself else ""), places,
            Cost("ranks choose different ways: less bandwidth, or a job that hangs"),
            f"set {name} to one value on all ranks: the same environment (mpirun -x, srun --export=ALL) and the same "
            "nccl.conf on all hosts; where one process set it twice, leave one",
            Proof(instruction="run with the same value everywhere and compare"),
        )  # fmt: skip
