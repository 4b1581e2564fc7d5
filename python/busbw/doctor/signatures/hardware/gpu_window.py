"""A GPU to which the BIOS gave no window of memory."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-window",
    stage=Stage.HARDWARE,
    title="the BIOS gave a GPU no window of memory (BAR), or too small a one: the driver cannot start it",
    patterns=(
        r"PCI I/O region assigned to your NVIDIA device is invalid",
        r"NVRM: BAR\d is 0M",
        r"\bBAR [0-5]\b.{0,60}(?:no space|can't assign|failed to assign).{0,60}\b64bit pref",
        r"\bBAR [0-5] \[mem size 0x[1-9a-f][0-9a-f]{8,16}\b.{0,30}(?:no space|can't assign|failed to assign)",
    ),
    explains=("driver-not-loaded", "gpu-not-visible", "nvml-missing", "probe-failed"),
    confirm="dmesg | grep -e BAR -e NVRM; lspci -vv -s GPU: Region 1 must have a size; /proc/iomem",
    cure=(
        "switch on Above 4G Decoding in the BIOS and raise the base and size of MMIO High. Else update the BIOS, or "
        "boot with pci=realloc; in VMs give the guest a larger MMIO window"
    ),
    source="the NVIDIA driver's words (NVRM); the Linux kernel: drivers/pci/setup-res.c",
)
