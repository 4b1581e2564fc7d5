"""Which device a finding is about, where its lines name one and its title does not."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.base.text import clean
from busbw.doctor.finding import Finding, Severity

MOST = 3
_NIC = (
    r"\b(?:mlx5_(?!core)\w{1,12}|bnxt_re_?\w{1,8}|rdmap\d+s\d+\w{0,8}|efa_\d{1,3}|irdma\d{1,3}|hsn\d{1,2}|cxi\d{1,2}|ibp?\d\w{0,12}"
    r"|roce\w{1,12}|rocep?\w{1,12}|erdma_\d{1,3}|mana_\d{1,3}|ionic_\d{1,3})(?::\d{1,2})?\b"
)
_BUS = r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b"
_GPU = r"\bGPU[ #:-]{0,2}\d{1,3}\b(?! ?(?:GB|GiB|of|x\b))|(?<=Xid \(PCI:)[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"
_OF_NICS = re.compile(f"{_NIC}|{_BUS}")
_OF_GPUS = re.compile(f"{_GPU}|{_BUS}")
_NICS = frozenset(
    {
        "nic-firmware",
        "nic-hang",
        "nic-hot",
        "ib-port-down",
        "ib-async",
        "ib-failover",
        "ibv-call-failed",
        "ib-devices-missing",
    }
)
_GPUS = frozenset(
    {"gpu-off-bus", "gpu-memory-error", "gpu-error-other", "gpu-firmware", "gpu-slowdown", "nvlink-error"}
    | {"pcie-errors", "gpu-exception"}
)


_LINKS = frozenset({"ib-port-down", "ib-async", "nic-hang"})
"""Of these NCCL names no device, and its lines the host whose port it is."""
_HOST = re.compile(r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[-?\d{1,3}\] ")


def _hosts(finding: Finding) -> list[str]:
    """The hosts whose NCCL says it."""
    found = (_HOST.search(seen.fact[:400]) for seen in finding.evidence)
    return list(dict.fromkeys(clean(each["host"]) for each in found if each is not None))


def with_place(finding: Finding) -> Finding:
    """The finding with the devices that its lines name, behind its title."""
    if finding.severity is Severity.NOTE or finding.name not in _NICS | _GPUS:
        return finding
    words = _OF_NICS if finding.name in _NICS else _OF_GPUS
    said = dict.fromkeys(clean(each[0]) for seen in finding.evidence for each in words.finditer(seen.fact[:400]))
    # The kernel writes one address with and without its function.
    named = [each for each in said if not any(other != each and other.startswith(f"{each}.") for other in said)]
    new = [each for each in named if each not in finding.title]
    if not named and finding.name in _LINKS:
        hosts = _hosts(finding)
        new = [f"on {host}" for host in hosts] if not any(host in finding.title for host in hosts) else []
    if not new or len(new) < len(named):
        return finding  # the title names one already
    more = " and others" if len(new) > MOST else ""
    return replace(finding, title=f"{finding.title} ({', '.join(new[:MOST])}{more})")
