"""Ranks of one host in containers of their own: they take each other for other hosts, and talk through sockets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "containers-apart"
_SAYS = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]{0,80}):\d{1,10}:\d{1,10} \[\d{1,3}\] NCCL INFO "
    r"(?:(?:Bootstrap|NET/Socket) ?: ?Using (?:\[0\])?(?:eth0):(?P<ip>172\.17\.\d{1,3}\.\d{1,3})<"
    r"|(?P<net>(?:Ring|Channel) \S{1,8} : [^\n]{5,120} via NET/Socket))"
)
"""The default bridge of Docker: containers with addresses of it that reach each other are on one host."""
_PRIVATE = re.compile(
    r"^\W{0,2}[\w.-]{1,60}\s[^\n]{0,40}?\bbridge\b[^\n]{0,80}\bipc=(?:private|shareable)\b"
    r"|\"IpcMode\": \"(?:private|shareable)\"|\bipc=private\b"
)
_ONE_GPU = re.compile(
    r"NVIDIA_VISIBLE_DEVICES=(?P<gpu>\d{1,2}|GPU-[\da-f-]{8,40})(?![\w,-])"
    r"|--gpus[ =]'?\"?device=(?P<own>\d{1,2})(?![\d,])"
)
_MOST = 200_000


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        addresses, net = _on_bridge(shown)
        if len(set(addresses.values())) < 2 or net is None:
            continue
        first = next(iter(addresses))
        private = _first(shown, _PRIVATE)
        gpus = {found["gpu"] or found["own"] for line in shown.lines for found in _ONE_GPU.finditer(line)}
        own = ", each with one GPU of its own" if len(gpus) > 1 else ""
        seen = [net, *([private] if private else [])]
        yield Finding(
            NAME, Severity.WARNING,
            f"{len(addresses)} containers of one host run the ranks (all are on Docker's bridge, 172.17.0.0/16{own}): "
            "NCCL takes them for hosts and sends all through sockets, without P2P and shared memory",
            (Evidence(f"{first} has {addresses[first]}", shown.source), *seen),
            Cost("GPUs of one host reach a few GB/s in place of what PCIe or NVLinks carry"),
            "run all ranks of the host in one container that sees all of its GPUs (--gpus all, one rank for each by "
            "CUDA_VISIBLE_DEVICES). Or share namespaces: --ipc=host --network=host --uts=host, all GPUs visible in "
            "each (NVIDIA_VISIBLE_DEVICES=all). Then ranks know that they share a host. libibverbs and RDMA are not "
            "needed inside of a host",
            Proof(instruction="start all ranks in one container: channels must say via P2P or via SHM"),
            stage=Stage.SETTING,
        )  # fmt: skip
        return


def _on_bridge(shown: Shown) -> tuple[dict[str, str], Evidence | None]:
    """Containers, with their addresses on the bridge, and the first connection over sockets that one of them says."""
    addresses: dict[str, str] = {}
    net: Evidence | None = None
    for number, line in enumerate(islice(shown.lines, _MOST), 1):
        if "NCCL INFO" not in line or (found := _SAYS.search(line)) is None:
            continue
        if found["ip"]:
            addresses[found["host"]] = found["ip"]
        elif net is None and found["host"] in addresses:
            net = Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
    return addresses, net


def _first(shown: Shown, words: re.Pattern[str]) -> Evidence | None:
    for number, line in enumerate(shown.lines, 1):
        if words.search(line):
            return Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
    return None
