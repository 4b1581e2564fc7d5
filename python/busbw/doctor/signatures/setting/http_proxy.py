"""Connections inside the cluster are sent to a proxy of HTTP."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="http-proxy",
    stage=Stage.SETTING,
    title="connections are sent to a proxy of HTTP that refuses them or does not reach the other hosts",
    patterns=(
        r"\bProxyError\b|Unable to connect to proxy|Tunnel connection failed",
        r"(?:http|HTTP) proxy (?:handshake|connect)\w* .{0,40}(?:fail|error|returned|40\d|50\d)",
        r"(?:http|HTTP) proxy returned .{0,20}\b(?:40\d|50\d)\b",
        r"\b(?:http|HTTP) proxy\b.{0,40}\b(?:refused|forbidden|denied)",
        r"[Ff]orbidden \(?(?:by )?(?:the )?proxy|\(https?_proxy=\S{4,80}\)",
        r"proxyconnect tcp: .{5,80}",
    ),
    confirm="env | grep -i proxy in the rank's own environment; the same request with curl --noproxy '*'",
    cure="put the cluster's hosts and addresses into no_proxy, NO_PROXY, or unset http_proxy and https_proxy there",
    source="urllib3, gRPC and Go's net/http",
    explains=("python-exception", "connection-refused", "connection-timeout", "dns", "credentials"),
)
