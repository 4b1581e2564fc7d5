"""Hosts of one job on which NCCL uses different numbers of NICs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _numbers(groups: Groups) -> dict[int, list[str]]:
    """Hosts by how many NICs they use; a host that said several numbers is left out: it began again."""
    said: dict[str, set[int]] = defaultdict(set)
    for each in groups:
        said[each["host"]].add(each["nics"].count("["))
    found: dict[int, list[str]] = defaultdict(list)
    for host, numbers in said.items():
        if len(numbers) == 1:
            found[min(numbers)].append(host)
    return dict(found)


def tell(groups: Groups) -> str:
    """Which hosts use fewer."""
    found = _numbers(groups)
    most, fewest = max(found), min(found)
    return f"{', '.join(sorted(found[fewest])[:6])} uses {fewest} NICs where other hosts use {most}"


SIGNATURE = Signature(
    name="nics-differ",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="hosts of the job use different numbers of NICs",
    patterns=(
        r"(?P<host>[A-Za-z0-9][\w.-]{0,120}):\d{1,10}:\d{1,10} \[\d{1,4}\] NCCL INFO NET/(?:IB|gIB|IBext\w*) ?: "
        r"Using (?P<nics>(?:\[\d{1,3}\][^\s\[\]]{1,80} ?){1,64})",
    ),
    confirm="grep 'NET/IB : Using' in the logs of all hosts; ibdev2netdev and ibstat on the host with fewer",
    cure=(
        "on the hosts with fewer: bring up the port that is down (ibstat), give the container every "
        "RDMA device, and set "
        "the same NCCL_IB_HCA everywhere. Until then leave these hosts out"
    ),
    cost="the ranks of all hosts wait for the slowest one, or the init fails",
    source="NCCL src/transport/net_ib",
    tell=tell,
    holds=lambda groups: len(_numbers(groups)) > 1,
)
