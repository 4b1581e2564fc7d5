"""RDMA devices belong to one network namespace, and nothing moved them into the container's."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether namespaces are apart, no device was found, and no plugin of the network hands them over."""
    said = {name for each in groups for name in each}
    return {"mode", "none"} <= said and "moved" not in said


SIGNATURE = Signature(
    name="rdma-exclusive",
    stage=Stage.SETTING,
    title=(
        "RDMA devices are kept apart by network namespaces on the host (netns exclusive), and nothing moves the device "
        "into the container: it sees none, though /dev/infiniband may be there"
    ),
    patterns=(
        r"\bnetns (?P<mode>exclusive)\b",
        r"\bib_core\b.{0,20}\bnetns_mode=(?P<mode>0|N)\b",
        r"NET/IB ?: (?P<none>No device found)",
        r"(?P<none>No IB devices found|Error: network IB not found)",
        r"Failed to initialize NET plugin (?P<none>IB)\b",
        r"\"type\": ?\"(?P<moved>rdma)\"",
    ),
    holds=_holds,
    explains=("ib-devices-missing", "network-not-found", "net-plugin-not-found"),
    between_nodes=True,
    confirm="rdma system on the host; rdma link on the host and in the container: the device must be in the container",
    cure=(
        'chain the RDMA CNI behind the network\'s plugin ({"type": "rdma"} in the NetworkAttachmentDefinition, isRdma: '
        "true in the SR-IOV policy). Or set the hosts to shared: rdma system set netns shared, options ib_core "
        "netns_mode=1 in /etc/modprobe.d, without pods that use RDMA. Or hostNetwork"
    ),
    source="iproute2's rdma system; Kubernetes rdma-cni",
)
