"""A cloud's network plugin is not found by NCCL, so that hosts with EFA, Slingshot or gIB talk over sockets."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_NAMES = {"efa": "EFA's (aws-ofi-nccl)", "cxi": "Slingshot's (aws-ofi-nccl)", "gib": "Google's (gIB, TCPXO)"}


def _said(groups: Groups, name: str) -> bool:
    return any(name in each for each in groups)


def tell(groups: Groups) -> str:
    """Which plugin it is, by what else the log names."""
    whose = next((text for name, text in _NAMES.items() if _said(groups, name)), "the cloud's")
    why = (
        "NCCL_NET_PLUGIN=none leaves the network plugin out"
        if _said(groups, "none")
        else "the network plugin is not found"
    )
    return f"{why}: NCCL uses sockets, and not {whose}"


SIGNATURE = Signature(
    name="net-plugin-not-found",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="the network plugin is not found: NCCL uses sockets, and not the cloud's plugin",
    patterns=(
        r"NCCL INFO NET/Plugin ?: (?P<absent>No plugin found|Could not find|Plugin load \(?lib[nr]ccl-net\S{0,20}"
        r" returned 2|libnccl-net\.so: cannot open|dlerror=libnccl-net\.so: cannot open)",
        r"NCCL_NET_PLUGIN set (?:by environment )?to (?P<none>none)\b",
        r"NCCL INFO Using network (?P<socket>Socket)",
        r"(?P<efa>/\S{0,120}(?:ofi-nccl|/amazon/)\S{0,80}/libnccl-(?:net|ofi)\S{0,20}\.so)",
        r"\bprovider: (?P<efa>efa)\b",
        r"^(?:\S{1,400}:)?(?P<efa>/opt/amazon/efa/lib\w*)",
        r"(?P<efa>\bp[456][\w-]{0,8}[.-]?(?:24|36|48)xlarge\b)",
        r"(?P<efa>\bp[456]\w{0,3}(?:-st-|-dy-))",
        r"\bprovider: (?P<cxi>cxi)\b",
        r"NCCL INFO NET/Socket ?: Using .{0,80}\](?P<cxi>hsn\d)",
        # Newer releases name the network that they take in a line that says nothing else.
        r"NCCL INFO NET/(?P<socket>Socket) ?: Using \[",
        r"(?P<gib>/usr/local/(?:gib|tcpxo|tcpx)/lib\w*)",
        r"(?P<gib>\ba[34]-\w{4,8}gpu-8g)",
        r"(?P<gib>\bNCCL_FASTRAK_\w{3,40}\b|\btcpxo-daemon\b)",
    ),
    between_nodes=True,
    confirm="find / -name 'libnccl-net*'; echo $LD_LIBRARY_PATH in the job; the log must say NET/OFI or NET/gIB",
    cure=(
        "unset NCCL_NET_PLUGIN where it is none, and add the plugin's folder to LD_LIBRARY_PATH of all ranks (mpirun "
        "-x LD_LIBRARY_PATH, srun --export=ALL), in the image too. For EFA these are /opt/amazon/ofi-nccl/lib or "
        "/opt/aws-ofi-nccl/lib, and /opt/amazon/efa/lib. The log must then say `Using network` with the plugin's name"
    ),
    cost="sockets reach a tenth of what the plugin carries between nodes",
    source="NCCL src/plugin/net.cc; aws-ofi-nccl",
    tell=tell,
    explains=("libibverbs-missing",),
    holds=lambda groups: (
        (_said(groups, "absent") or _said(groups, "none"))
        and _said(groups, "socket")
        and any(_said(groups, each) for each in _NAMES)
    ),
)
