"""A PCIe link that trained with fewer lanes or at a lower rate than device and slot can do."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="pcie-limited",
    stage=Stage.HARDWARE,
    title="a PCIe link of a GPU or NIC runs below what the device can do",
    patterns=(
        # GPUs lower the rate to 2.5 GT/s while they are idle: this one alone says nothing.
        r"available PCIe bandwidth, limited by (?!2\.5 GT)\d+(?:\.\d+)? GT/s PCIe x\d+ link",
        r"LnkSta:\s{0,4}Speed [\d.]+GT/s(?: \(\w+\))?, Width x\d+ \(downgraded\)",
        r"PCIe link (?:width|speed|generation) (?:is )?(?:degraded|downgraded|lower than expected|reduced)",
        r"\bpcie\.link\.width\.current: (?P<now>\d+)\b.{0,400}\bpcie\.link\.width\.max: (?!(?P=now)\b)\d",
        r"\blink width.{0,24}(?:degraded|current x(?P<is>\d+)\b.{0,12}max(?:imum)? x(?!(?P=is)\b)\d)",
        r"DCGM_FR_PCI_(?:WIDTH|GENERATION|REPLAY_RATE)\w*",
    ),
    confirm="nvidia-smi -q | grep -A6 'GPU Link Info' under load; lspci -vv -s DEVICE: LnkCap and LnkSta",
    cure="reseat the card, riser or cable, clean the slot, set width and generation of the slot in the BIOS",
    cost="transfers through that link lose the share of lanes that is missing",
    severity=Severity.WARNING,
    source="the Linux kernel: drivers/pci/pci.c (pcie_report_downtraining); lspci",
)
