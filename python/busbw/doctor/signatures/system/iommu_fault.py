"""The IOMMU stops transfers between devices."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="iommu-fault",
    stage=Stage.SYSTEM,
    title="the IOMMU blocks or redirects transfers between GPUs or NICs (IOMMU or ACS is on)",
    patterns=(
        r"ACSCtl:.{0,60}ReqRedir\+",
        r"Missing .{1,3}(?:amd_)?iommu=\w+.{1,3} from kernel command line",
        r"Missing .iommu=pt. from kernel command line",
        r"DMAR:.{0,60}(?:fault|error|DMA (?:Read|Write))",
        r"IO_PAGE_FAULT",
        r"AMD-Vi.{0,60}(?:fault|Event logged)",
        r"arm-smmu.{0,60}(?:fault|event)",
        r"\bACSCtl:.{0,20}SrcValid\+",
        r"ACS (?:is )?(?:enabled|redirect)",
        r"IOMMU.{0,40}(?:enabled|translat).{0,60}(?:p2p|peer|GPU)",
    ),
    explains=("p2p-broken", "wrong-results"),
    confirm="`dmesg | grep -i -e iommu -e dmar`; lspci -vvv | grep ACSCtl; p2pBandwidthLatencyTest",
    cure=(
        "boot with iommu=pt, and switch ACS off on the PCIe switches (setpci, or the BIOS). Where that is not enough, "
        "switch the IOMMU off (intel_iommu=off, amd_iommu=off). Until then NCCL_P2P_DISABLE=1"
    ),
    source="NCCL's troubleshooting page; the Linux kernel: drivers/iommu",
)
