"""The driver was loaded without the options that IBGDA needs."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether doorbells could not be mapped, and a driver shows that it has not got the option."""
    lacks = any("words" in each and "peermappingoverride=1" not in each["words"].lower() for each in groups)
    return any("refused" in each for each in groups) and lacks


SIGNATURE = Signature(
    name="ibgda-driver",
    stage=Stage.DRIVER,
    title=(
        "the NVIDIA driver runs without PeerMappingOverride=1 on a host (RegistryDwords in /proc/driver/nvidia/params),"
        " so that IBGDA cannot map the NIC's doorbells into the GPU"
    ),
    patterns=(
        r"(?P<refused>cannot map UAR of device)",
        r"(?P<refused>ibgda_alloc_and_map_qp_uar|ibgda_nic_mem_gpu_map)\b.{0,40}fail",
        r"(?P<refused>cudaHostRegister with IoMemory) failed",
        r"\bRegistryDwords: (?P<words>\".{0,400}\")",
    ),
    holds=_holds,
    explains=("nvshmem-init", "gdrcopy", "cuda-call-failed"),
    confirm="grep -e RegistryDwords -e EnableStreamMemOPs /proc/driver/nvidia/params on all hosts; uptime -s",
    cure=(
        'options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;" in /etc/modprobe.d, '
        "update-initramfs, then reload the nvidia modules or reboot: a file that is newer than the boot has no effect "
        "yet. Until then NVSHMEM_IBGDA_NIC_HANDLER=cpu"
    ),
    source="NVSHMEM src/modules/transport/ibgda; DeepEP's guide",
)
