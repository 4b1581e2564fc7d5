"""A virtual machine hides which GPU is near which NIC, and no topology file tells it: NCCL avoids GPU Direct."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _holds(groups: Groups) -> bool:
    """Whether the bus is hidden, every GPU and NIC is counted as far apart, and nobody gave a file."""
    said = {name for each in groups for name in each}
    far = {each["far"] for each in groups if "far" in each}
    return "hidden" in said and (len(far) > 1 or not far.isdisjoint({"0", "PHB"})) and said.isdisjoint({"file", "near"})


SIGNATURE = Signature(
    name="topology-hidden",
    stage=Stage.SYSTEM,
    severity=Severity.WARNING,
    title=(
        "the virtual machine hides which GPU is near which NIC and no NCCL_TOPO_FILE tells it: NCCL does without GPU "
        "Direct RDMA"
    ),
    patterns=(
        r"NCCL INFO Topology detection ?: could not read /sys/\S{0,300}(?P<hidden>max_link_(?:speed|width)|numa_node)",
        # A processor without a number of its NUMA node, and so the one of all devices.
        r"NCCL INFO CPU/(?:0-)?(?P<hidden>f{16})\b",
        r"NCCL INFO Topology detection ?: could not read /sys/devices/system/node/(?P<hidden>node-1)/cpumap",
        r"NCCL INFO KV Convert to int ?: could not find value of (?P<hidden>'') in dictionary",
        r"GPU Direct RDMA Disabled for GPU \S{1,20} / HCA (?P<far>\S{1,40}) \(distance \d",
        r"GPU Direct RDMA Disabled for HCA (?P<far>\S{1,20})(?: '[^'\n]{1,40}')? \(distance \d",
        # One GPU's way to each NIC: all of them behind the processor's own bridge, as no board of so many has them.
        r"NCCL INFO GPU/\S{1,24} ?:(?!.{1,900}NET/\S{1,12} \(\d{1,2}/[\d.]{1,9}/(?:PIX|PXB|PXN|P2C|NODE|SYS)\))"
        r".{1,600}?(?:NET/\S{1,12} \(\d{1,2}/[\d.]{1,9}/PHB\) ){3}"
        r"NET/\S{1,12} \(\d{1,2}/[\d.]{1,9}/(?P<far>PHB)\)",
        # Of an HCA alone it says that its driver can, and nothing of distances.
        r"GPU Direct RDMA (?P<near>Enabled) for GPU \S{1,20} / HCA",
        r"NCCL_TOPO_FILE (?:is )?set (?:by environment )?to (?P<file>/\S{1,300})",
        r"NCCL INFO Loading topology file (?P<file>/\S{1,300})",
    ),
    confirm="lspci -tv in the machine; NCCL_TOPO_DUMP_FILE=topo.xml and `busbw topo topo.xml`; env | grep NCCL_TOPO",
    cure=(
        "set NCCL_TOPO_FILE to the provider's file for this size of machine, on all nodes and in containers (Azure: "
        "/opt/microsoft/ndv4-topo.xml, ndv5-topo.xml, from the repository azhpc-images or the HPC image). Until then "
        "NCCL_NET_GDR_LEVEL=SYS"
    ),
    cost="between nodes often half of the bandwidth and more: every byte crosses host memory, over few channels",
    source="NCCL src/graph/xml.cc, src/graph/paths.cc",
    holds=_holds,
    between_nodes=True,
)
