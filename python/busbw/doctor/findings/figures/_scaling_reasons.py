"""Why more GPUs or nodes may make a job slower, as far as the log's lines of NCCL tell."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence
from busbw.doctor.shown_texts import Text, named, texts_of

_SOCKET = re.compile(
    r"NCCL INFO (?:NET/Socket ?: Using \[0\](?P<name>[\w.-]{1,20}):|Using network Socket\b"
    r"|Channel .{1,60} via NET/Socket)"
)
_NO_DEVICE = re.compile(
    r"NCCL INFO NET/IB ?: No device found|NCCL INFO (?:Failed to open libibverbs|NCCL_IB_DISABLE set)"
)
_DETOUR = re.compile(r"NCCL INFO Channel .{1,60} via (?P<way>SHM)\b")
_FABRIC = re.compile(r"NCCL INFO (?:Using network (?P<net>IB|AWS Libfabric|OFI)\b|NET/IB ?: Using )")


@dataclass(frozen=True, slots=True)
class Reason:
    """What the title says of the cause, the cure, the proof, and lines that bear it out."""

    said: str
    fix: str
    proof: str
    evidence: tuple[Evidence, ...] = ()


_TEST = "all_reduce_perf of nccl-tests over the same GPUs and nodes: its busbw against the rate of their links"


def between_nodes(facts: Facts) -> Reason:
    """Nodes exchange over TCP, by NCCL's own lines; else over an unknown way."""
    texts = texts_of(facts)
    socket = _first(_SOCKET, texts)
    if socket is None:
        fabric = " (NCCL uses it: see its counters and GPUDirect)" if _first(_FABRIC, texts) else ""
        return Reason(
            "what the nodes send each other is the first suspect, before slow storage",
            f"run all_reduce_perf over the nodes. Is it slow: NCCL_DEBUG=INFO must show NET/IB or the cloud's plugin, "
            f"and not NET/Socket, on all ports{fabric}. Is it fast: data_time, and a run with synthetic data. Fewer "
            "bytes between nodes help in any case: HYBRID_SHARD for FSDP, gradient accumulation",
            _TEST,
        )
    none = _first(_NO_DEVICE, texts)
    name = next((found["name"] for text in texts for found in _SOCKET.finditer(text.text) if found["name"]), "")
    on = f" on {named(name, 20)}" if name else ""
    why = ", as it found no RDMA device" if none else ""
    return Reason(
        f"NCCL sends between the nodes over TCP (NET/Socket{on}){why}",
        "where the nodes have InfiniBand, RoCE or EFA: make it visible in the container or VM (ibv_devices, "
        "/dev/infiniband, rdma-core or the cloud's plugin), until NCCL says NET/IB. Where they have none, TCP is the "
        "limit. Then send less: HYBRID_SHARD for FSDP (ZeRO++ hpZ, or plain data parallel), gradient accumulation, "
        "larger micro batches. Or take a faster NIC by NCCL_SOCKET_IFNAME, with NCCL_SOCKET_NTHREADS=4 and "
        "NCCL_NSOCKS_PERTHREAD=4. GPUs at 100 % are no sign of work: they wait in NCCL's kernels",
        f"{_TEST}; iperf3 -P 8 between two nodes",
        tuple(text.evidence(at) for text, at in (socket, *((none,) if none else ()))),
    )


def between_gpus(facts: Facts) -> Reason:
    """The GPUs of one host: what they send each other, or what they read; the figures alone do not tell."""
    texts = texts_of(facts)
    detour = _first(_DETOUR, texts)
    if detour is not None:
        return Reason(
            "NCCL sends between the GPUs through the host's memory (SHM), without P2P",
            "look why there is no P2P: nvidia-smi topo -p2p r, NCCL_P2P_DISABLE, ACS and IOMMU, GPUs on two sockets. "
            "Cards without NVLink and P2P (RTX 4090) have this limit: gradient accumulation, larger batches, bf16 "
            "gradients. Compare with synthetic data, to leave out the loaders",
            _TEST,
            (detour[0].evidence(detour[1]),),
        )
    return Reason(
        "either the ranks wait for data (processors and disk of the host), or for what GPUs send each other",
        "tell them apart: run with synthetic or cached data. Is it fast then, the input is short: as many loader "
        "workers as there are cores in all, faster decoding, a local SSD. A small data_time of one rank proves "
        "nothing, as it waits for the slowest. Is it still slow, the exchange is: all_reduce_perf, nvidia-smi topo -m "
        "(PCIe, P2P), gradient accumulation",
        f"top, iostat -x and nvidia-smi dmon during the run; {_TEST}",
    )


def _first(words: re.Pattern[str], texts: tuple[Text, ...]) -> tuple[Text, int] | None:
    return next(((text, found.start()) for text in texts if (found := words.search(text.text))), None)
