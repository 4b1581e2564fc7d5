"""A virtual interface was chosen that does not reach the other nodes."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="wrong-interface",
    stage=Stage.SETTING,
    title="NCCL chose an interface that other hosts cannot reach: {interface}",
    patterns=(
        r"(?:Using(?: \[0\]|:)?\s*|OOB )(?:\[0\])?(?P<interface>docker\w*|virbr\d+|br-[0-9a-f]{6,}"
        r"|veth\w+|cni\d*|flannel\S*?|cali\w+|podman\d*|lxcbr\d+|tailscale\d*|kube-\S+?|vmnet\d+"
        r"|weave|nerdctl\d+|tunl\d+|vxlan\S*?|genev_\S*?|wg\d+|zt\w+|cilium_\w+|antrea\S*?|ovn\S*?):\d",
        r"(?:Using(?: \[0\]|:)?\s*|OOB )(?:\[0\])?(?P<interface>ip6tnl\d*|ip6_vti\d*|sit\d+|ip6gre\d+|gre\d+)"
        r":[0-9a-f]{1,4}[:.]",
        r"\b(?P<interface>172\.17\.0\.\d+|192\.168\.122\.\d+)\b.{0,40}(?:refused|timed out|unreachable|failed: )",
        r"(?P<interface>docker0|virbr0)\b.{0,60}(?:fail|refused|timed out|unreachable)",
        r"connect(?:ion)? to (?P<interface>172\.17\.0\.\d+|192\.168\.122\.\d+)\S* (?:failed|returned)",
        r"Connect to (?P<interface>172\.17\.0\.\d+|192\.168\.122\.\d+)<\d+>",
        r"NET/Socket : Using .{0,200}\](?P<interface>docker\d+|virbr\d+|br-[0-9a-f]{6,}|veth\w+|cali\w+|flannel\S*?):",
        r"[Cc]onnect to fe80:[0-9a-f:]+%(?P<interface>[A-Za-z][\w.-]{1,30})<",
        r"Every node should have a unique IP address\. Got.{0,160}unique IP address\w* \{(?P<interface>[^}]{3,60})\}",
        r"(?:[Cc]onnect to|recv from|send to) (?P<interface>172\.(?:1[7-9]|2\d|3[01])\.0\.1)<\d+>",
        r"[Cc]onnect to (?P<interface>169\.254\.\d+\.\d+)<\d+>",
        r"NET/Socket : Using .{0,200}\](?P<interface>[\w.-]{1,30}):169\.254\.\d",
    ),
    explains=(
        "socket-failed",
        "connection-refused",
        "connection-timeout",
        "no-route",
    ),
    between_nodes=True,
    confirm="ip -br addr on every node: which interface has an address that the other nodes reach",
    cure=(
        "set NCCL_SOCKET_IFNAME to the interface between the nodes (for PyTorch GLOO_SOCKET_IFNAME "
        "too; for vLLM VLLM_HOST_IP, another one on each node), or exclude with "
        "NCCL_SOCKET_IFNAME=^docker,br-,veth,virbr,lo"
    ),
    source=("NCCL src/misc/socket.cc: without a setting the first interface that is neither docker nor lo"),
)
