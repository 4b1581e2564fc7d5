"""PCIe reports errors of a link."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="pcie-errors",
    stage=Stage.HARDWARE,
    title="PCIe reports errors on the link of a device",
    patterns=(
        r"DPC: containment event",
        r"not ready \d+ms after \w.{0,20}giving up|Unable to change power state from \w+ to D0",
        r"pcieport .{0,60}Card not present",
        r"PCIe Bus Error: severity=",
        r"AER:.{0,60}(?:error|fatal)",
        r"pcieport .{0,60}(?:error|Link Down)",
    ),
    confirm="lspci -vvv -s DEVICE: LnkSta and DevSta; `dmesg | grep -i aer`",
    cure=(
        "reseat or replace the card, riser or cable; corrected errors in large numbers slow the "
        "link too; check that its width and generation are full"
    ),
    source="the Linux kernel: drivers/pci/pcie/aer.c",
)
