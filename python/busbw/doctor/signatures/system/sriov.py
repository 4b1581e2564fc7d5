"""Virtual functions of a NIC cannot be made or used."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="sriov",
    stage=Stage.SYSTEM,
    title="virtual functions (SR-IOV) of a NIC cannot be made: address space, BIOS or firmware do not allow so many",
    patterns=(
        r"not enough MMIO resources for SR-IOV",
        r"pci_enable_sriov.{0,20}fail|[Ff]ailed to enable (?:PCI )?(?:SR-?IOV|VFs?)\b|SR-IOV: bus number out of range",
        r"sriov_numvfs.{0,80}(?:error|denied|[Cc]annot|fail|busy)",
        r"\b(?:SR-?IOV|sriov)\b.{0,80}(?:fail\w*|error|disabled in (?:the )?BIOS|not (?:supported|enabled) (?:by|in))",
    ),
    confirm=(
        "`dmesg | grep -i sriov`; cat /sys/class/net/*/device/sriov_totalvfs; mlxconfig -d DEVICE q | grep -e "
        "SRIOV -e NUM_OF_VFS"
    ),
    cure=(
        "enable SR-IOV and memory above 4 GiB in the BIOS, SRIOV_EN and NUM_OF_VFS in the firmware, pci=realloc "
        "for the kernel; ask for fewer functions"
    ),
    source="the Linux kernel: drivers/pci/iov.c",
    unless=("sandbox",),
    explains=("host-memory", "ib-devices-missing", "kubernetes-event"),
)
