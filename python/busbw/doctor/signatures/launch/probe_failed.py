"""Kubernetes restarts a container whose probe does not answer."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="probe-failed",
    stage=Stage.LAUNCH,
    title="Kubernetes ends the container because its {what} probe is not answered: it starts slowly, or hangs",
    patterns=(
        r"failed (?P<what>liveness|startup) probe, will be restarted",
        # One that failed before the container was up is of its start: kubelet says so where it ends it.
        r"(?P<what>Liveness) probe (?:failed|errored)",
    ),
    explains=("killed-by-launcher", "process-crashed"),
    confirm="kubectl describe pod POD: the probe's times; kubectl logs --previous: how far did the start come",
    cure=(
        "give the start its time (startupProbe with failureThreshold x periodSeconds above the time to load and "
        "compile). Where it hangs after that, look for the collective that it waits in (py-spy dump)"
    ),
    source="Kubernetes: pkg/kubelet/prober",
    soft=True,
)
