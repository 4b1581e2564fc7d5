"""A pod of the job that the launcher talks to is not there, or not ready."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="pod-missing",
    stage=Stage.LAUNCH,
    title="a pod of the job is not there or does not run yet: {what}",
    patterns=(
        r"Error from server \(NotFound\): pods? \"(?P<what>\S{1,120})\" not found",
        r"unable to upgrade connection: (?P<what>container not found.{0,80})",
        r"error: (?P<what>cannot exec into a container in a completed pod.{0,80})",
        r"Error from server \(BadRequest\): (?P<what>pod \S{1,80} does not have a host assigned)",
    ),
    confirm="kubectl get pods -o wide of the job (Pending? ended?); kubectl describe of the one that is named",
    cure=(
        "start the launcher only when all workers run (waitForWorkersReady, an init container that "
        "pings them). See why that pod is gone: kubectl describe pod, kubectl logs --previous (memory, eviction, node)"
    ),
    source="kubectl; Kubeflow's mpi-operator",
    explains=("mpi-launch", "kubernetes-event", "mpi-other", "killed-by-launcher"),
)
