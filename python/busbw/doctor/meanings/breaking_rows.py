"""Variables that break a run: name, values that do, what signatures then tell, words of it, cause, and cure."""

from __future__ import annotations

_OTHER_SUBNET = (
    r"local ?GID\w?\b\W{0,3}::ffff:(?P<subnet>\d{1,3}\.\d{1,3}\.\d{1,3})\.\d{1,3}\b.{0,40}"
    r"remote ?GIDs?\W{0,3}::ffff:(?!(?P=subnet)\.)\d"
)
"""The address of the peer's NIC is of another network than this NIC's."""
_LINK_LOCAL = (
    r"local ?GIDs?(?: index \d{1,3}, local GID)?\W{0,3}fe80::(?:[\da-f]{1,4}:){0,2}[\da-f]{0,2}ff:fe[\da-f]{2}:"
    r"|local GID fe80::(?:[\da-f]{1,4}:){0,2}[\da-f]{0,2}ff:fe[\da-f]{2}:"
)
"""An address that was made of a card's Ethernet address: of RoCE, and not of InfiniBand."""

ROWS: tuple[tuple[str, str, tuple[str, ...], str, str, str], ...] = (
    (
        "NCCL_HOSTID",
        r".+",
        ("bad-shm-attach", "duplicate-gpu", "cuda-ipc"),
        r"",
        "makes NCCL take several hosts or containers for one: their ranks share neither memory nor GPUs",
        "give each host and each container a value of its own, or none; else one /dev/shm for all (--ipc=host)",
    ),
    (
        "NCCL_PXN_DISABLE",
        r"[1-9]\d{0,3}",
        ("ib-connect-timeout", "no-route", "ib-retry"),
        _OTHER_SUBNET,
        "lets a GPU send from its own NIC to NICs of other rails, and these networks have no way to each other",
        "without it such messages go over NVLink to the right NIC; else route between the rails. NCCL_CROSS_NIC=0 too",
    ),
    (
        "NCCL_CROSS_NIC",
        r"[12]",
        ("ib-connect-timeout", "no-route", "ib-retry"),
        _OTHER_SUBNET,
        "lets rings and trees change from one rail to another, and these networks have no way to each other",
        "set NCCL_CROSS_NIC=0 where rails are apart, or route between them",
    ),
    (
        "NCCL_IB_GID_INDEX",
        r"\d{1,3}",
        ("ib-connect-timeout", "ib-retry"),
        _LINK_LOCAL,
        "chooses a link-local address (fe80::) of the NIC, which no router carries to the peer's network",
        "NCCL 2.21 and later choose well without it; else the entry of RoCE v2 with IPv4 (show_gids, often 3)",
    ),
    (
        "NCCL_IB_TIMEOUT",
        r"[1-9]|1[0-2]",
        ("ib-retry",),
        r"",
        "lets RDMA wait a few milliseconds for an answer and no longer",
        "NCCL's own value is 20 (22 on large fabrics)",
    ),
    (
        "NCCL_IB_RETRY_CNT",
        r"[0-3]",
        ("ib-retry",),
        r"",
        "lets RDMA give up after so few packets that were lost",
        "NCCL's own value is 7",
    ),
    (
        "NCCL_BUFFSIZE",
        r"1[6-9]\d{6}|[2-9]\d{7}|\d{9,12}",
        ("gpu-memory-full",),
        r"NCCL|nccl|transport/|alloc\.h",
        "makes each of NCCL's buffers many times as large as usual (4 MiB), of which each channel has several",
        "leave it unset; more channels or GPU Direct help more than larger buffers",
    ),
)
