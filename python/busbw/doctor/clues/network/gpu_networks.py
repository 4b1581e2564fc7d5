"""Clues of the networks of a node pool at Google: one of another kind takes the place of a GPU's NIC."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_NETWORK = re.compile(r"^\s{0,12}(?:- )?network: ['\"]?(?P<name>[a-z][\w/.-]{1,120}?)['\"]?\s{0,4}$", re.MULTILINE)
"""A row of additionalNodeNetworkConfigs, as YAML."""
_NUMBER = re.compile(r"\d{1,3}$")
_FEWEST = 4
"""Networks of one kind by which they are those of GPUs: an A3 node has four or eight."""


def network_of_another_kind(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All networks but one or two are numbered alike."""
    for text in texts:
        if "additionalNodeNetworkConfigs" not in text.text:
            continue
        rows = {found["name"].rpartition("/")[2]: found.start("name") for found in _NETWORK.finditer(text.text)}
        stems = Counter(_NUMBER.sub("", name) for name in rows)
        if not stems:
            continue
        stem, count = stems.most_common(1)[0]
        odd = [name for name in rows if _NUMBER.sub("", name) != stem]
        if count < _FEWEST or not 0 < len(odd) < count:
            continue
        return Sharper(
            f"the node pool has only {count} networks of GPU NICs ({named(stem)}N), and {named(', '.join(odd[:3]))} "
            "takes the place of one. Google's receive daemon (RxDM) finds no NIC beside each GPU and ends: NCCL is "
            "left with plain TCP",
            f"make the node pool again with the networks of the GPU NICs alone (8 on a3-megagpu), without "
            f"{named(', '.join(odd[:3]))}. GPUs, plugin and firewall are not at fault",
            (text.evidence(rows[odd[0]]),),
        )
    return None
