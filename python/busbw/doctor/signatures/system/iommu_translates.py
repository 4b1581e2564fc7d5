"""Wrong values between GPUs beside an IOMMU that the kernel was told to translate with."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _holds(groups: Groups) -> bool:
    """Whether values were wrong and the kernel says that devices' addresses are translated."""
    said = {name for each in groups for name in each}
    return {"wrong", "translated"} <= said and "identity" not in said


SIGNATURE = Signature(
    name="iommu-translates",
    stage=Stage.SYSTEM,
    title=(
        "the IOMMU translates what GPUs write to each other over PCIe, and the values that arrive are wrong: the "
        "kernel's default domain is Translated"
    ),
    patterns=(
        r"(?P<wrong>Verification error @ element)",
        r"(?P<wrong>Out of bounds values *: *[1-9]\d*)",
        r"(?P<wrong>Out of bounds values *:.{0,20}FAILED)",
        r"iommu: Default domain type: (?P<translated>Translated)",
        r"iommu: Default domain type: (?P<identity>Passthrough)",
        r"(?P<translated>iommu=(?:force|nopt))\b.{0,200}$",
    ),
    explains=("wrong-results", "p2p-broken"),
    confirm="cat /proc/cmdline; dmesg | grep -i 'default domain'; simpleP2P, and nccl-tests with NCCL_P2P_DISABLE=1",
    cure=(
        "boot with iommu=pt (or amd_iommu=off, intel_iommu=off) without iommu=force, or switch the IOMMU off in the "
        "BIOS, and ACS too; until then NCCL_P2P_DISABLE=1. Results that were computed here are not to be trusted"
    ),
    cost="sums are silently wrong",
    source="NCCL's troubleshooting page; the Linux kernel: drivers/iommu/iommu.c",
    holds=_holds,
)
