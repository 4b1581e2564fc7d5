"""Settings that the guide of a cloud's own network prescribes: with that network in use they are no fault."""

from __future__ import annotations

import re

from busbw.doctor.facts import Facts

_NETWORK = re.compile(r"TCPX|FasTrak|fastrak|\bgIB\b")
"""Networks of Google's machine types, by the name with which NCCL says that it uses them."""
_PRESCRIBED = {
    "NCCL_ALGO": re.compile(r"ring(?:,tree)?|tree,ring", re.IGNORECASE),
    "NCCL_PROTO": re.compile(r"simple(?:,ll128)?", re.IGNORECASE),
    "NCCL_MAX_NCHANNELS": re.compile(r"(?:[89]|[1-9]\d)"),
    "NCCL_BUFFSIZE": re.compile(r"[48]\d{6}"),
    "NCCL_P2P_NVL_CHUNKSIZE": re.compile(r"\d{6,7}"),
}


def is_prescribed(facts: Facts, name: str) -> bool:
    """Whether the variable has a value that the guide of the network in use gives it."""
    wanted, value = _PRESCRIBED.get(name), facts.value(name)
    if wanted is None or value is None or not wanted.fullmatch(value):
        return False
    named = [each.text for log in facts.logs for each in (log.network, *log.networks.values()) if each is not None]
    return any(map(_NETWORK.search, named))
