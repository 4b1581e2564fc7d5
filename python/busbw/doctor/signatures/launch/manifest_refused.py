"""Kubernetes refuses the job's manifest, or what it would make of it."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="manifest-refused",
    stage=Stage.LAUNCH,
    title="Kubernetes refuses the job's manifest: {what}",
    patterns=(
        r"^(?:error: |\S{0,40} ?)?(?:The )?(?-i:[A-Z])\w{2,40} \"\S{1,120}\" is invalid: (?P<what>.{5,300})",
        r"(?P<what>no matches for kind \"\w{1,60}\"(?: in version \"\S{1,80}\")?)",
        r"(?P<what>failed calling webhook \"?\S{1,120}\"?.{0,400})",
        r"admission webhook \"\S{1,120}\" denied the request: (?P<what>.{3,200})",
        r"(?P<what>violates PodSecurity .{3,300})",
        r"error validating \"\S{1,120}\": (?P<what>error validating data: .{3,200})",
        r"is forbidden: (?P<what>(?:User|ServiceAccount) \"\S{1,160}\" cannot \w{2,20} resource .{3,120})",
        r"error: error parsing \S{1,120}: (?P<what>.{3,160})",
    ),
    confirm="kubectl apply --dry-run=server -f FILE; kubectl explain KIND.FIELD",
    cure="correct the field that is named (kubectl explain), and apply it again; no pod was made",
    cost="the job never starts",
    source="the API server of Kubernetes and kubectl",
    explains=("kubernetes-event", "connection-refused", "connection-timeout"),
)
