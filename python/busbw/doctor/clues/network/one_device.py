"""Channels between hosts that all go over one device of several, and without GPU Direct RDMA, as NCCL's lines show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CHANNEL = re.compile(
    r"NCCL INFO Channel [^\n]{5,120}? via NET/(?P<net>AWS Libfabric|[A-Z][\w-]{1,24})/(?P<device>\d{1,3})"
    r"(?:\(\d{1,6}\))?(?P<gdr>/GDRDMA\b)?"
)
_COUNT = re.compile(r"NCCL INFO Channel \d{1,3}/(?P<n>\d{2,3}) : {1,8}\d{1,5} {1,8}\d")
_VERSION = re.compile(r"\bNCCL version (?P<version>\d{1,2}\.\d{1,3}\.\d{1,3})")
_PLUGIN = re.compile(r"\b(?:aws-ofi-nccl|plugin)\b[^\n]{0,60}?\bv?(?P<version>[01]\.\d{1,2}\.\d{1,2})\b", re.IGNORECASE)
_MOST, _FEW = 20_000, 4
_OF_EFA = "AWS Libfabric"
_FOR_EFA = (
    "take a newer NCCL and a newer plugin (aws-ofi-nccl): it brings a topology file for the instance, and spreads "
    "channels over all EFA. Attach all EFA interfaces (4 on p4d, 32 on p5) and give them to the container. "
    "FI_PROVIDER=efa and FI_EFA_USE_DEVICE_RDMA=1; channels must then end in /GDRDMA and name devices 0 to 3. The "
    "plugin itself runs, and needs no other setting of NCCL"
)


def over_one_device(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All channels between hosts name one device."""
    for text in texts:
        channels = list(islice(_CHANNEL.finditer(text.text), _MOST))
        devices = {(found["net"], found["device"]) for found in channels}
        if len(channels) < 2 or len(devices) != 1 or channels[0]["net"] == "Socket":
            continue
        net, device = next(iter(devices))
        plain = not any(found["gdr"] for found in channels)
        count, version = _COUNT.search(text.text), _VERSION.search(text.text)
        plugin = _PLUGIN.search(text.text) if net == _OF_EFA else None
        few = f", on {int(count['n'])} channels" if count is not None and int(count["n"]) <= _FEW else ""
        releases = [
            *([f"NCCL {version['version']}"] if version else []),
            *([f"plugin {plugin['version']}"] if plugin else []),
        ]
        by = f" ({', '.join(releases)})" if releases else ""
        gdr = ", and without GPU Direct RDMA (no /GDRDMA behind it)" if plain else ""
        return Sharper(
            f"{finding.title}. All channels between hosts go over one device, NET/{named(net, 30)}/{device}{few}{gdr}"
            f"{by}",
            _FOR_EFA if net == _OF_EFA else finding.fix,
            (
                text.evidence(channels[0].start()),
                *((text.evidence(count.start()),) if few and count is not None else ()),
                *((text.evidence(version.start()),) if version else ()),
            ),
        )
    return None
