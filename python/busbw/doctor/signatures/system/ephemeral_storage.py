"""A node evicts a pod for what it wrote to the node's disk."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ephemeral-storage",
    stage=Stage.SYSTEM,
    title="the node evicted the pod: it wrote more to the node's own disk than its limit of ephemeral storage",
    patterns=(
        r"ephemeral local storage usage exceeds",
        r"exceed\w* (?:its |the )?(?:local )?ephemeral[ -]storage limit",
        r"Usage of EmptyDir volume .{1,120}exceeds the limit",
    ),
    # A volume for shared memory counts as memory, and tells of another cure.
    unless=("shm", "shared memory"),
    explains=(
        *("host-memory", "node-lost", "mpi-launch", "process-crashed", "process-killed", "job-cancelled"),
        *("kubernetes-event", "pod-missing", "ssh-launch"),
    ),
    confirm="kubectl describe pod POD (Message); du -sh of the container's /tmp, caches and checkpoints",
    cure=(
        "write checkpoints, caches (HF_HOME, TMPDIR) and logs to a volume (PVC) or shared storage, or raise the limits "
        "of ephemeral-storage and the sizeLimit of emptyDir"
    ),
    source="Kubernetes: kubelet's eviction for local storage",
)
