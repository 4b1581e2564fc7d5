"""Clues of EFA's software: an image that was built without it has no plugin to be found on any path."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_OF_EFA = re.compile(r"\bFI_PROVIDER=efa\b|\bFI_EFA_\w{3,40}|amazonaws\.com/efa|\bp[456]\w{0,3}\.(?:24|48)xlarge\b")
_NO_FOLDER = re.compile(
    r"^[^\n]{0,80}\b(?:ls|stat|find|cd)\b: [^\n]{0,30}?(?P<what>/opt/(?:amazon|aws-ofi-nccl)(?:/[\w-]{1,30}){0,3})"
    r"/?\W{1,4}No such file|\b(?P<tool>fi_info): (?:command )?not found",
    re.MULTILINE,
)
_ASKED = re.compile(
    r"\bldconfig -p ?\| ?e?grep [^\n]{0,80}(?:fabric|ofi|nccl-net)[^\n]{0,80}"
    r"(?P<said>(?:\n(?![^\n]{0,60}[$#] )[^\n]{0,200}){0,24})"
)
_HAS = re.compile(
    r"\blibfabric\.so|\blibnccl-(?:net|ofi)\S{0,20}\.so(?:\.\d)? \(|/libnccl-(?:net|ofi)\S{0,20}\.so"
    r"|NET/OFI (?:Init|Sel|Using)"
)
_NO_VERBS = re.compile(r"[Ff]ailed to open libibverbs")
_INSTALL = (
    "install EFA's software in the image (efa_installer.sh -y --skip-kmod: libfabric and rdma-core) and aws-ofi-nccl, "
    "or start from an image that has both. LD_LIBRARY_PATH of all ranks then needs /opt/amazon/ofi-nccl/lib (or "
    "/opt/aws-ofi-nccl/lib) and /opt/amazon/efa/lib. The log must say `Using network` with the plugin's name; NCCL's "
    "release, tuning and placement are not at fault"
)


def not_installed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A host or pod with EFA whose image shows neither the plugin nor libfabric."""
    if not any(_OF_EFA.search(text.text) for text in texts) or any(_HAS.search(text.text) for text in texts):
        return None
    gone = next(((text, found) for text in texts if (found := _NO_FOLDER.search(text.text))), None)
    listed = next(((text, found) for text in texts if (found := _ASKED.search(text.text))), None)
    seen = gone or listed
    if seen is None:
        return None
    lacks = [
        *([f"no {gone[1]['what'] or gone[1]['tool']}"] if gone else []),
        *(["no libfabric"] if listed else []),
        *(["no libibverbs"] if any(_NO_VERBS.search(text.text) for text in texts) else []),
    ]
    return Sharper(
        f"EFA's software is not installed in this image ({', '.join(lacks)}): NCCL finds no plugin (aws-ofi-nccl) and "
        "uses sockets",
        _INSTALL,
        tuple(text.evidence(found.start()) for text, found in (gone, listed) if found is not None)
        if gone and listed
        else (seen[0].evidence(seen[1].start()),),
    )
