"""A clue of a network that NCCL_NET asks for, whose plugin has only interfaces that this NCCL no longer takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_REFUSED = re.compile(
    r"ncclNetPlugin symbol \(>= v(?P<need>\d{1,2})\)"
    r"|ncclNetPlugin symbols? v(?P<last>\d{1,2}) and lower are not supported"
    r"|plugin v(?P<old>\d{1,2}) is (?:no longer|not) supported"
)
_NET = re.compile(r"\bnetwork (?P<net>[A-Za-z][\w .-]{0,38}?) not found")
_HAS = re.compile(r"^(?!.{0,200}(?:Failed|not found)).{0,200}?\bncclNetPlugin_v(?P<has>\d{1,2})\b", re.MULTILINE)
"""What strings or nm print of the plugin."""
_RELEASE = re.compile(
    r"\b(?P<name>aws-ofi-nccl|HPC-X|hpcx)[ -]?v?(?P<version>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?:aws)?\b"
)
_NCCL = re.compile(r"\bNCCL version (?P<version>2\.\d{1,2}\.\d{1,2})\b")
_PROVIDER = re.compile(r"^\s{0,4}provider: efa\b", re.MULTILINE)


def plugin_too_old(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL found the plugin's file and refused each interface in it, so that its network has no name."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    net = _NET.search(said)
    seen = next(((text, found) for text in texts if (found := _REFUSED.search(text.text))), None)
    if net is None or seen is None:
        return None
    text, found = seen
    needs = int(found["need"] or int(found["last"] or found["old"]) + 1)
    has = max((int(each["has"]) for other in texts for each in _HAS.finditer(other.text)), default=0)
    release = next((each for other in texts if (each := _RELEASE.search(other.text))), None)
    nccl = next((each for other in texts if (each := _NCCL.search(other.text))), None)
    which = f" ({release[0]})" if release else ""
    offers = f" offers ncclNetPlugin_v{has}, and" if 0 < has < needs else " is too old:"
    there = ". fi_info shows EFA's provider: devices and libfabric are there" if any(
        _PROVIDER.search(other.text) for other in texts) else ""  # fmt: skip
    return Sharper(
        f"the network {named(net['net'], 40)} is missing because its plugin{which}{offers} NCCL"
        f"{' ' + nccl['version'] if nccl else ''} takes v{needs} or newer",
        "install a release of the plugin that was made for this NCCL in the image: a newer aws-ofi-nccl (EFA "
        "installer) or HPC-X. LD_LIBRARY_PATH must name it. An NCCL of the plugin's own time works too; "
        f"without NCCL_NET the job goes over sockets, slowly{there}",
        (text.evidence(found.start()),),
    )
