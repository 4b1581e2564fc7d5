"""The network plugin of AWS runs over TCP instead of EFA."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ofi-slow-provider",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="libfabric took {provider} instead of EFA, so that NCCL's traffic goes over TCP",
    patterns=(r"NET/OFI Selected provider is (?P<provider>tcp|udp|sockets|net)\b",),
    confirm="fi_info -p efa on each host and in the container; grep 'Selected provider' in the logs of all ranks",
    cure=(
        "give the container its EFA devices (/dev/infiniband, vpc.amazonaws.com/efa), put /opt/amazon/efa/lib first in "
        "LD_LIBRARY_PATH, unset FI_PROVIDER or set it to efa; attach EFA interfaces to the instance"
    ),
    cost="between nodes a tenth of the bandwidth or less",
    source="aws-ofi-nccl src/nccl_ofi_net.cpp",
    between_nodes=True,
)
