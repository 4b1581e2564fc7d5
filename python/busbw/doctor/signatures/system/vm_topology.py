"""A virtual machine hides how its devices are connected."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="vm-topology",
    stage=Stage.SYSTEM,
    title=("NCCL cannot read how GPUs and NICs are connected (a virtual machine hides it, or NCCL_TOPO_FILE is wrong)"),
    patterns=(
        r"XML (?:Graph|Topology) has wrong version|Could not open XML graph file",
        r"graph/\w+\.(?:cc|h):\d+.{0,60}[Cc]ould ?n[o']t find",
        r"graph/\w+\.(?:cc|h):\d+.{0,60}(?:Failed to find|unable to find|is NULL|too many|out of (?:room|range))",
        r"XML parser is limited to|XML (?:Export|Import) Channel|XML Mismatch",
        r"\bring \d+ does not (?:contain|loop)",
        r"Could not find a path for pattern \d+, falling back",
        r"Could not find real path of|Failed to find reverse path from remNode",
        r"Could not open XML topology file",
        r"TopoFuseXmls",
        r"could not find CPU numa ID",
        r"XML Parse.{0,60}(?:error|expected|unexpected)",
        r"Could not find (?:rev link|node of type|NET with id|CPU close)",
        r"XML Import.{0,60}(?:error|fail|Mismatch|Invalid)",
        r"Attribute \w+ of node \w+ not found",
        r"No path computed to go from",
        r"could not find CPU close to GPU",
        r"XML Parse : unterminated",
        r"Error : (?:name|value) .{1,80} too long",
        r"ncclTopoGetSystemFromXml: system node not found",
        r"getXmlFromCpu: Unknown CPU",
        r"MLOPart mask",
    ),
    unless=(
        "virtualtopology.xml",
        "merg",
        "fused nic",
        "tuning.cc",
        "nccl info attribute",
        "nccl info could not find real path",
    ),
    explains=("ib-devices-missing",),
    confirm="lspci -tv; NCCL_TOPO_DUMP_FILE=topo.xml and `busbw topo topo.xml`",
    cure=(
        "set NCCL_TOPO_FILE to the provider's topology file of this VM size (readable on every node "
        "and in every container), or remove a wrong one"
    ),
    cost="channels are laid without knowing the links",
    severity=Severity.WARNING,
    source="NCCL src/graph/topo.cc, src/graph/xml.cc",
)
