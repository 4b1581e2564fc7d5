"""Kubernetes reports an event that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="kubernetes-event",
    stage=Stage.FAILURE,
    title="Kubernetes reports: {what}",
    patterns=(
        r"\bReason: +(?:TopologyAffinityError|OutOf[\w./-]+|NodeAffinity|NodeShutdown|NodePorts|PodOSNotSupported)\b",
        r"Pod was rejected: ",
        r"Warning +(?P<what>(?:Failed|BackOff|NodeNot|Evict|Network|Insufficient|Invalid)\w* .{5,140})",
        r"\bWarning {1,9}(?-i:(?P<what>(?:[A-Z]+[a-z]+){2,6})) {1,9}\S.{4,140}",
        r"\breason: (?-i:(?P<what>(?:Failed|BackOff|Evict|Unhealthy|NodeNot|Network|OOM|Invalid|Insufficient)\w*))",
        r"(?-i:(?P<what>MountVolume\.\w+ failed for volume.{0,80}|AttachVolume\.\w+ failed.{0,80}))",
        r"(?P<what>(?:deployment|statefulset|daemonset) \S{1,80} exceeded its progress deadline)",
        # Rows of `kubectl get pods`.
        r"(?-i:^\W{0,3}[a-z0-9][\w./-]{2,120} +\d+/\d+ +(?P<what>(?:Init:)?(?:\w*(?:BackOff|Error|ImagePull|Evicted)"
        r"|ContainerStatusUnknown|NodeLost|UnexpectedAdmissionError|Unknown))\b) +\d",
        r"Error from server(?: \(\w+\))?: (?P<what>.{5,140})",
    ),
    unless=(
        "readiness probe",
        "liveness probe",
        "retrying",
    ),
    confirm="kubectl describe pod POD; kubectl get events --sort-by=.lastTimestamp",
    cure="follow the event: image, volume, quota or node; delete and create the pod once the reason is gone",
    source="Kubernetes' own words",
    last=True,
    soft=True,
)
