"""libfabric finds no EFA device."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="efa-missing",
    stage=Stage.SYSTEM,
    title=(
        "libfabric finds no EFA device here: the container lacks it, the instance has no EFA interface, or libfabric "
        "is another one than the plugin's"
    ),
    patterns=(
        r"fi_getinfo\S{0,4}.{0,60}(?:failed: No data available|\(-61\)|-FI_ENODATA)",
        r"fi_getinfo\S{0,4}.{0,40}provider efa output empty list",
        r"NET/OFI.{0,120}(?:No eligible|Could(?:n't| not) find any optimal) provider",
        r"NET/OFI Only EFA provider",
        r"No (?:valid |usable )?EFA devices?(?: were| was)? (?:found|detected|available)",
        r"^fi_getinfo: -61\b",
        # Nobody asks for this where there is no EFA, and it comes with EFA's installer.
        r"\bfi_info\b.{0,20}(?:command not found|not found|No such file)",
    ),
    explains=("ib-devices-missing", "efa-error", "network-not-found", "plugin-not-loaded", "mpi-network"),
    confirm="fi_info -p efa in the container and on its host; ls /dev/infiniband; ibv_devices; ldd libnccl-net.so",
    cure=(
        "give the container its devices (docker --device /dev/infiniband, Kubernetes vpc.amazonaws.com/efa in the "
        "limits), attach EFA interfaces to the instance, and put the EFA installer's libfabric (/opt/amazon/efa) "
        "first in LD_LIBRARY_PATH. On a machine outside of AWS: NCCL_NET_PLUGIN=none"
    ),
    source="aws-ofi-nccl; libfabric src/fabric.c",
)
