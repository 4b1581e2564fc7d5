"""Libraries that connect as NCCL does, and their own variables: NCCL's have no effect on them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from busbw.doctor.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class Writer:
    """Who prints such lines, and what it reads in place of NCCL's variables."""

    words: re.Pattern[str]
    name: str
    own: tuple[tuple[str, str], ...]


_ROWS = r"""
nvshmem|bootstrap/uid|ncclsocket_socket|bootstrap_uid\.cpp|\bibgda\b ; NVSHMEM ; SOCKET_IFNAME NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME, IB_HCA NVSHMEM_HCA_LIST, IB_GID_INDEX NVSHMEM_IB_GID_INDEX, IB_TC NVSHMEM_IB_TRAFFIC_CLASS, IB_SL NVSHMEM_IB_SL, DEBUG NVSHMEM_DEBUG
mscclpp ; MSCCL++ ; SOCKET_IFNAME MSCCLPP_SOCKET_IFNAME, IB_HCA MSCCLPP_HCA_DEVICES, DEBUG MSCCLPP_DEBUG
\bUC[XC] |\bUC[XC]\b.{0,8}(?:ERROR|WARN)|\bTL_\w+ ERROR ; UCX ; SOCKET_IFNAME UCX_NET_DEVICES, IB_HCA UCX_NET_DEVICES, IB_GID_INDEX UCX_IB_GID_INDEX, IB_TC UCX_IB_TRAFFIC_CLASS, IB_SL UCX_IB_SL, IB_TIMEOUT UCX_RC_TIMEOUT, IB_RETRY_CNT UCX_RC_RETRY_COUNT, DEBUG UCX_LOG_LEVEL
\bHIP\b|hipError|\bHSA_|\brocm|No HIP GPUs ; ROCm ; CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES
\bxpu\b|level.?zero|\bze\w+Error|ZE_RESULT ; Level Zero (XPU) ; CUDA_VISIBLE_DEVICES ZE_AFFINITY_MASK
\bnpu\b|\bacl\w{3,20}\b.{0,60}error ; Ascend ; CUDA_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES, SOCKET_IFNAME HCCL_SOCKET_IFNAME
\bHCCL_|\bhccl\b|HCCP ; HCCL ; SOCKET_IFNAME HCCL_SOCKET_IFNAME, DEBUG ASCEND_GLOBAL_LOG_LEVEL
\boneCCL\b|\|CCL_(?:ERROR|WARN) ; oneCCL ; SOCKET_IFNAME CCL_KVS_IFACE and FI_TCP_IFACE, DEBUG CCL_LOG_LEVEL
\bmori\w*\b.{0,80}(?:bootstrap|socket|rank) ; MORI ; SOCKET_IFNAME MORI_SOCKET_IFNAME, IB_HCA MORI_RDMA_DEVICES
\bgloo\b ; Gloo ; SOCKET_IFNAME GLOO_SOCKET_IFNAME
libfabric: ; libfabric ; SOCKET_IFNAME FI_TCP_IFACE, IB_HCA FI_VERBS_DEVICE_NAME, DEBUG FI_LOG_LEVEL
mpiexec@|proxy:\d|HYD[UT]_ ; MPICH's launcher ; SOCKET_IFNAME HYDRA_IFACE
horovod ; Horovod ; SOCKET_IFNAME HOROVOD_GLOO_IFACE
"""  # noqa: E501


def _read(text: str) -> tuple[Writer, ...]:
    found = []
    for row in text.strip().splitlines():
        words, name, own = row.split(" ; ")
        pairs = [tuple(each.strip().split(" ", 1)) for each in own.split(",")]
        found.append(Writer(re.compile(words, re.IGNORECASE), name, tuple((each[0], each[1]) for each in pairs)))
    return tuple(found)


WRITERS = _read(_ROWS)
_OF_NCCL = re.compile(r"NCCL (?:INFO|WARN)|\bnccl\w*Error\b|NET/", re.IGNORECASE)
_VARIABLE = re.compile(
    r"\b(?:NCCL_)?((?:(?<=NCCL_)(?:SOCKET_IFNAME|DEBUG|IB_(?:HCA|GID_INDEX|TC|SL|TIMEOUT|RETRY_CNT))|CUDA_VISIBLE_DEVICES)\b)"
)


def with_writer(finding: Finding) -> Finding:
    """The finding with the variables of the library that wrote its first line, where the cure names NCCL's."""
    named = dict.fromkeys(_VARIABLE.findall(finding.fix or ""))
    if finding.severity is Severity.NOTE or not named or not finding.evidence:
        return finding
    said = finding.evidence[0].fact
    writer = next((each for each in WRITERS if each.words.search(said)), None) if not _OF_NCCL.search(said) else None
    if writer is None:
        return finding
    own = [
        f"{mine} (for {_full(theirs)})" for theirs, mine in writer.own if theirs in named and mine not in finding.fix
    ]
    title = re.sub(r"^NCCL chose\b", f"{writer.name} chose", finding.title)
    if not own:
        return replace(finding, title=title)
    return replace(finding, title=title, fix=f"{writer.name} reads {', '.join(own)}. {_upper(finding.fix)}")


def _upper(text: str) -> str:
    return text if text.startswith(("NCCL_", "nvidia-")) else text[:1].upper() + text[1:]


def _full(name: str) -> str:
    return name if name.startswith("CUDA_") else f"NCCL_{name}"
