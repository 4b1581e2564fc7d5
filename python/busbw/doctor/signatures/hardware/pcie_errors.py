"""PCIe reports errors of a link."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

MANY = 10
"""So many lines of corrected errors are more than a healthy link has now and then."""


def light(groups: Sequence[Mapping[str, str]], lines: int) -> bool:
    """Whether the link corrected the few errors that it had."""
    fates = {each["fate"].lower() for each in groups if "fate" in each}
    return bool(fates) and fates <= {"corrected", "correctable"} and lines < MANY


SIGNATURE = Signature(
    name="pcie-errors",
    stage=Stage.HARDWARE,
    title="PCIe reports errors on the link of a device",
    patterns=(
        r"DPC: containment event",
        r"not ready \d+ms after \w.{0,20}giving up|Unable to change power state from \w+ to D0",
        r"(?:pcieport|pciehp) .{0,60}Card not present",
        r"PCIe Bus Error: severity=(?P<fate>Corrected|\w{1,20})",
        r"AER: (?P<fate>(?:Multiple )?(?:Corrected|Correctable|Uncorrect\w+)) .{0,20}error",
        r"AER:.{0,60}(?:error|fatal)",
        r"pcieport .{0,60}(?:error|Link Down)",
    ),
    confirm="lspci -vvv -s DEVICE: LnkSta and DevSta; `dmesg | grep -i aer`",
    cure=(
        "reseat or replace the card, riser or cable; corrected errors in large numbers slow the "
        "link too; check that its width and generation are full"
    ),
    source="the Linux kernel: drivers/pci/pcie/aer.c",
    light=light,
)
