"""The kernel's bounce buffers for devices are full."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="bounce-buffers",
    stage=Stage.SYSTEM,
    title="devices copy through the kernel's bounce buffers (swiotlb), and these are full",
    patterns=(
        r"swiotlb buffer is full",
        r"swiotlb: .{0,60}(?:coherent allocation failed|Out of SW-IOMMU|cannot allocate|exhausted)",
        r"Out of SW-IOMMU space",
        r"overflow 0x[0-9a-f]{4,16}\+\d{1,12} of DMA mask",
    ),
    explains=("ibv-call-failed", "registration-failed", "memlock"),
    confirm="dmesg | grep -i -e swiotlb -e iommu; cat /sys/kernel/debug/swiotlb/io_tlb_used",
    cure=(
        "boot so that devices reach memory themselves (intel_iommu=on or amd_iommu=on with iommu=pt; none of "
        "swiotlb=force). In a confidential VM, which needs the buffers, enlarge them: swiotlb=524288 on the kernel's "
        "command line"
    ),
    source="the kernel's kernel/dma/swiotlb.c",
)
