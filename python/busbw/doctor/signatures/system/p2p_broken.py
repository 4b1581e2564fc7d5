"""GPUs that should reach each other directly do not."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="p2p-broken",
    stage=Stage.SYSTEM,
    title="GPUs of one host cannot reach each other directly (P2P)",
    patterns=(
        r"P2P is disabled between",
        # A row of `nvidia-smi topo -p2p r`: chipset, GPU or topology not supported, disabled by a key of the registry.
        r"^\W{0,4}GPU\d{1,3}\s+(?:(?:X|OK|U)\s+){0,32}(?:CNS|GNS|TNS|DR)(?:\s|$)",
        r"CANNOT Access Peer Device",
        r"Could not enable P2P between",
        r"peer access is not supported",
        r"Cuda failure 217\b",
        r"peer query failed between",
        r"P2P not supported between GPU",
        r"cudaDeviceEnablePeerAccess.{0,40}(?:fail|error)",
        r"nvmlDeviceGetP2PStatus\(.{0,80}failed",
        r"cudaErrorPeerAccess(?:Unsupported|NotEnabled)|CUDA_ERROR_PEER_ACCESS_(?:UNSUPPORTED|NOT_ENABLED)",
        r"RTX \d000 series doesn't support faster communication",
    ),
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -m; p2pBandwidthLatencyTest",
    cure=(
        "switch IOMMU and ACS off (BIOS, kernel command line), update the driver, in a VM ask the "
        "provider; on GPUs without P2P (GeForce) NCCL_P2P_DISABLE=1 avoids the attempt"
    ),
    cost="data goes through host memory, or the job fails",
    severity=Severity.WARNING,
    soft=True,
    source="NCCL src/graph/paths.cc, src/transport/p2p.cc",
)
