"""NCCL is told to use one NIC of a host that has several which are up."""

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_MANY = 3


def _words(groups: Groups, name: str) -> list[str]:
    return list(dict.fromkeys(each[name] for each in groups if name in each))


def _unused(groups: Groups) -> list[str]:
    """NICs that are up, of the kind of the one that is used, and not among those that are named."""
    used = " ".join(_words(groups, "nic"))
    kind = "infiniband" if used.endswith("/IB") else "ethernet"
    named = {each.partition(":")[0] for each in re.split(r"[,=\s]+", ",".join(_words(groups, "hca")))}
    up = _words(groups, kind)
    return [each for each in up if each not in named and f"{each}:" not in used]


def _holds(groups: Groups) -> bool:
    """Whether NICs are named, one is used by all that say what they use, and several others are up."""
    if "more" in {name for each in groups for name in each} or not _words(groups, "hca"):
        return False
    return len(_words(groups, "nic")) == 1 and len(_unused(groups)) >= _MANY


def tell(groups: Groups) -> str:
    """Which one, by what setting, and which it leaves out."""
    nic, unused = _words(groups, "nic")[0].partition(":")[0], _unused(groups)
    return (
        f"NCCL_IB_HCA={_words(groups, 'hca')[0]} leaves NCCL one NIC ({nic}) for all GPUs of a host, and "
        f"{len(unused)} others that are up carry nothing: {', '.join(unused[:8])}"
    )


SIGNATURE = Signature(
    name="one-nic",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="NCCL_IB_HCA leaves NCCL one NIC of a host that has several",
    patterns=(
        r"NCCL_IB_HCA set (?:by environment )?to (?P<hca>[=\w:][\w:,.=-]{0,200})",
        r"NCCL INFO NET/IB ?: Using \[0\](?P<nic>[\w:.-]{1,40}/(?:IB|RoCE))(?! ?\[1\])(?: |$)",
        r"NCCL INFO NET/IB ?: Using .{1,80}(?P<more>\[1\])",
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
