"""Lines by which a driver of the kernel says that a GPU, a NIC, a link or a disk failed it: nearer than who waits."""

from __future__ import annotations

import re

_WRITER = re.compile(
    r"\b(?:mlx[45]_(?:core|ib|en)|infiniband \w{2,20}|bnxt_(?:en|re)|irdma|efa|ionic|hfi1"
    r"|ib_(?:core|cm|mad|umad|uverbs|ipoib|srp)"
    r"|rdma_\w{2,12}|pcieport|vfio-pci|nvme(?: nvme\d+)?|nvidia(?:-(?:nvswitch\d{0,2}|nvlink|uvm|modeset|peermem))?"
    r"|nvidia_peermem|gdrdrv|DMAR|AMD-Vi)(?: [0-9a-f:.]{7,12})?(?: \w{2,16})?(?: \([^)]{1,40}\))?: "
    r"|\bNVRM: |\b(?:EXT4-fs|XFS|BTRFS|LustreError|NFS)\b[^:\n]{0,40}: |\bEDAC \w{2,12}: "
)
"""How drivers of what a job uses begin their lines."""
_FAILS = re.compile(
    r"\b(?:fail\w*|error|timeout|timed out|unable|can(?:no|')t|could(?: not|n't)|not (?:ready|respond\w*|accessible"
    r"|available|enough)|fatal|abort\w*|lost|dead|hung|stuck|halt\w*|crash\w*|corrupt\w*|invalid|unexpected|overflow"
    r"|uncorrect\w*|poison\w*|reset|removed|disabl\w*|exceed\w*|exhausted|overheat\w*|no space|leak|shut(?:ting)? ?down"
    r"|isn't ready|is full|unsupported|incompatib\w*|mismatch\w*|DBE|ECC)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:mac-?sec|ip-?sec|tunnel\w*|vxlan|geneve|encap\w*|devlink"
    r"|e-?switch|fdb|flow|ft|meter|stats|lag|pending image|ttc"
    r"|chains?|vlan|vport|representor|\brep\b|ets|htb|mqprio|dcb\w*|ptp|pps|tls|xdp|xsk|trace[r]?\w*|fwtracer|hwmon"
    r"|thermal zone|debugfs|sysfs|counter|sample\w*|acl|bridge|bond\w* netdev|macvlan"
    r"|qos|rate limit|vdpa|sf \w+|sub-?function"
    r"|display\w*|disp\w{0,20}|hdmi|audio|edid|backlight|vblank|nvenc|nvdec|console|gsync"
    r"|dp_?\w*aux|i2c|license|procfs"
    r"|gc6|gcoff|vga|fbcon|smbios|quota|mount option|deprecated)\b"
    r"|\bclean mount|deprecat|already|ignor\w+|recovered|single[- ]bit|\bcorrected|falling back"
    r"|module verification|out-of-tree|tainting"
    r"|\btaint\b|is expected|harmless|optional|\bwill retry\b",
    re.IGNORECASE,
)
"""What a job over RDMA and NVLink does without."""
_LOOK = 300


def is_of_driver(text: str) -> bool:
    """Whether a driver of what the job uses says there that something failed."""
    found = _WRITER.search(text[:_LOOK])
    if found is None:
        return False
    said = text[found.end() : found.end() + _LOOK]
    return _FAILS.search(said) is not None and _ASIDE.search(said) is None


_BOOT = re.compile(r"\[ {0,6}\d{1,2}\.\d{3,9}\] (?!.{0,40}\b(?:panic|BUG|Oops))")


def is_of_boot(text: str) -> bool:
    """Whether the kernel says it while it starts, of a part of the machine that no job needs."""
    return _BOOT.match(text) is not None and _WRITER.search(text[:_LOOK]) is None
