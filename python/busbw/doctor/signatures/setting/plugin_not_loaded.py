"""A network plugin that was asked for is not there, and the job goes on without it."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="plugin-not-loaded",
    stage=Stage.SETTING,
    title="the network plugin that was asked for was not loaded, so that NCCL uses its own verbs or sockets",
    patterns=(
        r"NET/Plugin.{0,120}lib[nr]ccl-net-(?!none)[\w.-]{1,80}\.so.{0,160}Using internal",
        # The plugin is there, and a library that it needs is not.
        r"NET/Plugin.{0,60}(?:dlerror=|returned \d+ : )(?!\S{0,200}lib[nr]ccl-net)\S{3,200}: cannot open shared object",
        # The plugin is there, and was built for another system.
        r"NET/Plugin.{0,80}(?:dlerror=|returned \d+ : |dlopen failed)\S{0,200}.{0,120}"
        r"(?:version `|undefined symbol|invalid ELF|wrong ELF|too short)",
        r"Failed to initialize NET plugin (?!IB\b|Socket\b)\w",
        r"External network plugin \S{1,60} is unsupported",
    ),
    explains=("network-not-found",),
    between_nodes=True,
    confirm="env | grep NCCL_NET_PLUGIN; ldconfig -p | grep -e nccl-net; find / -name 'libnccl-net*'",
    cure=(
        "install the plugin in the image of every node and put its folder into LD_LIBRARY_PATH, "
        "or unset NCCL_NET_PLUGIN where no plugin is meant"
    ),
    cost="between nodes sockets reach a fraction of what EFA, Slingshot or TCPX carry through their plugin",
    severity=Severity.WARNING,
    source="NCCL src/plugin/net.cc",
)
