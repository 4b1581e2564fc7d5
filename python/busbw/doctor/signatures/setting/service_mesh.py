"""A proxy of a service mesh stands between ranks."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="service-mesh",
    stage=Stage.SETTING,
    title="a proxy of a service mesh (Istio, Envoy, Linkerd) or a network policy stops connections between ranks",
    patterns=(
        r"rbac_access_denied_matched_policy",
        r"upstream connect error or disconnect/reset before headers",
        r"\benvoy\b.{0,120}(?:denied|reset|refused|filter chain not found|upstream)",
        r"NR filter_chain_not_found",
        r"(?:NetworkPolicy|CiliumNetworkPolicy).{0,60}(?:denied|drop)",
        r"Policy denied (?:by denylist )?DROPPED|drop \(Policy denied\)",
        r"linkerd\S*.{0,100}(?:refused|denied|reset)",
    ),
    explains=("remote-error", "connection-refused", "connection-timeout", "master-unreachable", "socket-failed"),
    confirm="kubectl get pod POD -o jsonpath='{.spec.containers[*].name}' shows istio-proxy or linkerd-proxy; "
    "kubectl get networkpolicy,authorizationpolicy",
    cure=(
        "start the job's pods without the proxy (annotation sidecar.istio.io/inject: 'false', or "
        "linkerd.io/inject: disabled), and allow all ports between them in policies"
    ),
    source="Envoy's access log; the training operators of Kubeflow",
)
