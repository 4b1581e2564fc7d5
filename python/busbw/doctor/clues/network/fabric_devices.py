"""Clues of the NVSwitches' own InfiniBand devices: they serve the fabric manager, and lead to no other host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.network.kinds_apart import PORT, USING
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_DEVICE = re.compile(
    r"\bhca_id:\s{1,8}(?P<dev>[\w.-]{2,40})[ \t]*\n(?P<rest>(?:(?![^\n]{0,40}hca_id:)[^\n]{0,160}\n){1,40})"
)
"""What `ibv_devinfo`, or a grep in it, shows of one device."""
_SMALL = re.compile(r"\bactive_mtu:\s{1,8}(?:256|512) \(")
_OF_AMAZON = re.compile(r"\bvendor_id:\s{1,8}0x1d0f\b")
_EFA = re.compile(
    r"\bprovider: efa\b|\bFI_PROVIDER=efa\b|\b(?P<dev>rdmap\d{1,3}s\d{1,3}\w{0,6})\b|Elastic Fabric Adapter"
)
_MANAGES = re.compile(r"\bSW_MNG\b|NVLink5? ?[Mm]anagement|NVSwitch[^\n]{0,40}(?:bridge|management)")
"""How the firmware calls them (lspci -vv, the field of the product)."""
_MOST = 400


def fabric_devices(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL took no devices but such, as none of the network between hosts was offered to it."""
    taken = next(
        ((text, found) for text in texts for found in islice(USING.finditer(text.text), _MOST)), None
    )  # fmt: skip
    if taken is None:
        return None
    used = [each["dev"] for each in PORT.finditer(taken[1]["ports"])]
    listed = {found["dev"]: found["rest"] for text in texts for found in islice(_DEVICE.finditer(text.text), _MOST)}
    small = [dev for dev in used if _SMALL.search(listed.get(dev, ""))]
    efa = next(
        (
            (text, found)
            for text in texts
            for found in islice(_EFA.finditer(text.text), _MOST)
            if found["dev"] not in used
        ),
        None,
    )
    amazon = [dev for dev, rest in listed.items() if _OF_AMAZON.search(rest)]
    managed = any(_MANAGES.search(text.text) for text in texts) and efa is not None
    if not used or any(dev in amazon for dev in used) or (len(small) < len(used) and not managed):
        return None
    first = named(", ".join(used[:4]), 60)
    instead = f", and not EFA ({named(amazon[0], 30)}{' ...' if len(amazon) > 1 else ''})" if amazon else ""
    instead = instead or (", and not EFA" if efa else "")
    size = " (MTU 512, as no network between hosts has)" if small else ""
    return Sharper(
        f"NCCL took {first} for its network{instead}: these are InfiniBand devices of the NVSwitches within the "
        f"host{size}, and lead to no other host",
        (_BY_PLUGIN if instead else _BY_NAME).format(first=named(used[0], 30), out=named(",".join(used[:8]), 80)),
        (taken[0].evidence(taken[1].start()), *((efa[0].evidence(efa[1].start()),) if efa else ())),
    )


_BY_PLUGIN = (
    "install EFA's software and aws-ofi-nccl in the image, with LD_LIBRARY_PATH to its libnccl-net.so: NCCL must say "
    "`Selected provider is efa`. Keep NCCL off the others by NCCL_IB_HCA=^{out}. Memory, GPUs and cables are not at "
    "fault"
)
_BY_NAME = (
    "name the NICs between the hosts in NCCL_IB_HCA, or leave these out: NCCL_IB_HCA=^{out} on all hosts. ibv_devinfo "
    "shows the others by an active_mtu of 2048 or 4096. Without such NICs NCCL_IB_DISABLE=1. Memory, GPUs and cables "
    "are not at fault"
)
