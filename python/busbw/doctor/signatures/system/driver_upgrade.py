"""Kubernetes' GPU operator upgraded the driver of a node, and deleted the job's pod for it."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether the upgrade came to where it takes pods away, and then one went that is not of the operator."""
    names = [name for each in groups for name in each if name in {"state", "pod"}]
    return "state" in names and "pod" in names[names.index("state") :]


SIGNATURE = Signature(
    name="driver-upgrade",
    stage=Stage.SYSTEM,
    title="the GPU operator upgraded a node's driver and deleted the job's pod {pod} for it; other errors follow",
    patterns=(
        r"\bGPUDriverUpgrade\b.{0,200}\[(?P<state>(?:pod-deletion|drain)-required)\]",
        r"gpu-driver-upgrade-state\W{1,4}(?P<state>(?:pod-deletion|drain)-required)",
        r"\bKilling\s+pod/(?!nvidia-|gpu-operator|gpu-feature|node-feature|network-operator|mofed-|kube-|calico-|cilium-|"
        r"dcgm-)(?P<pod>[\w.-]{1,120})\s+Stopping container",
        r"\bKilling\s+\d\S{0,12}\s.{0,40}\bkubelet\s+Stopping container "
        r"(?!nvidia|driver|toolkit)(?P<pod>[\w.-]{1,120})",
        r"\bevicting pod (?!nvidia|gpu-operator|kube-system)[\w-]{1,60}/(?P<pod>[\w.-]{1,120})",
    ),
    soft=True,
    holds=_holds,
    explains=(
        "slurm-resources",
        "ib-retry",
        "ib-completion-error",
        "process-crashed",
        "job-cancelled",
        "node-lost",
        "pod-missing",
        "connection-refused",
        "connection-timeout",
        "socket-failed",
        "watchdog-timeout",
        "dns",
        "rendezvous-timeout",
        "master-unreachable",
        "store-lost",
    ),
    confirm="kubectl get events -A --sort-by=.lastTimestamp; kubectl get clusterpolicy -o yaml: driver.upgradePolicy",
    cure=(
        "start the job again. Set driver.upgradePolicy.autoUpgrade: false, or waitForCompletion.podSelector to the "
        "labels of training pods (timeoutSeconds: 0), and podDeletion.force: false; upgrade in a maintenance window. "
        "The label nvidia.com/gpu-driver-upgrade.skip=true leaves a node out"
    ),
    source="NVIDIA GPU operator: driver upgrade controller",
)
