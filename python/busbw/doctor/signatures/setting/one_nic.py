"""NCCL is told to use one NIC or a few of a host that has more which are up."""

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_MANY = 3


def _words(groups: Groups, name: str) -> list[str]:
    return list(dict.fromkeys(each[name] for each in groups if name in each))


def _used(groups: Groups) -> list[str]:
    """The NICs that NCCL says it uses, where all ranks say the same."""
    said = _words(groups, "nics")
    return re.findall(r"\](\w[\w.-]{0,39}):\d", said[0]) if len({each.strip() for each in said}) == 1 else []


def _unused(groups: Groups) -> list[str]:
    """NICs that are up, of the kind of those that are used, and not among those that are named."""
    kind = "infiniband" if "/IB" in " ".join(_words(groups, "nics")) else "ethernet"
    named = {each.partition(":")[0] for each in re.split(r"[,=\s]+", ",".join(_words(groups, "hca")))}
    return [each for each in _words(groups, kind) if each not in named and each not in _used(groups)]


def _holds(groups: Groups) -> bool:
    """Whether NICs are named, and as many others are up, but not only a few for storage."""
    used = _used(groups)
    return bool(used and _words(groups, "hca")) and len(_unused(groups)) >= max(_MANY, len(used))


def tell(groups: Groups) -> str:
    """Which one, by what setting, and which it leaves out."""
    used, unused = _used(groups), _unused(groups)
    nics = f"one NIC ({used[0]}) for all GPUs of a host" if len(used) == 1 else f"{len(used)} NICs"
    return (
        f"NCCL_IB_HCA={_words(groups, 'hca')[0][:80]} leaves NCCL {nics}, and {len(unused)} others that are up carry "
        f"nothing: {', '.join(unused[:8])}"
    )


SIGNATURE = Signature(
    name="one-nic",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="NCCL_IB_HCA leaves NCCL one NIC of a host that has several",
    patterns=(
        r"NCCL_IB_HCA set (?:by environment )?to (?P<hca>[=\w:][\w:,.=-]{0,200})",
        r"NCCL INFO NET/IB\w* ?: Using (?P<nics>(?:\[\d{1,3}\][\w:.+-]{1,60}/(?:IB|RoCE) ?){1,64})",
        r"^(?:\S{1,30}: )?(?P<infiniband>\w{2,30}) port \d ==> ib\S{1,20} \(Up\)",
        r"^(?:\S{1,30}: )?(?P<ethernet>\w{2,30}) port \d ==> (?!ib)\S{1,20} \(Up\)",
    ),
    between_nodes=True,
    confirm="ibdev2netdev; grep 'NET/IB : Using' in a log with NCCL_DEBUG=INFO of each host",
    cure=(
        "unset NCCL_IB_HCA, or let it name all NICs of the fabric (NCCL_IB_HCA=^mlx5_N leaves a storage NIC out), on "
        "every node: profile, nccl.conf, job script"
    ),
    cost="between nodes one port's share of the bandwidth",
    source="NCCL src/transport/net_ib",
    tell=tell,
    holds=_holds,
)
