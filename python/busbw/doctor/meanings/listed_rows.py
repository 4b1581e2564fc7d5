"""Rows of clues (as `clue_rows` has them) of what a cloud's or an operator's tools list beside the error."""

from __future__ import annotations

_MAINTAINED = (
    r"compute\.instances\.terminateOnHostMaintenance|terminated during Compute Engine maintenance"
    r"|\bTERMINATE_ON_HOST_MAINTENANCE\b|\"EventType\": ?\"Redeploy\""
    r"|\"Code\": ?\"(?:instance-retirement|system-maintenance|system-reboot|instance-reboot|instance-stop)\""
)
_HOST_FAILED = r"compute\.instances\.hostError\b|by Compute Engine due to (?:an? )?(?:internal|host) error"
_PLANNED = (
    "Network, GPUs and time limits of NCCL are not at fault. So that the next costs less, write a checkpoint at the "
    "cloud's notice, start maintenance when it suits, or keep spare nodes. Notices: maintenance-event in Google's "
    "metadata, scheduled events of Azure and AWS"
)

_MODULE = (
    r"^filename:[^\n]{0,160}/(?P<module>\w{3,24})\.ko[^\n]{0,8}\n(?:[^\n]{0,200}\n){0,6}?"
    r"version:\s{1,20}(?P<version>\d[\w.-]{2,30})\s*$"
)
"""What modinfo says of a module."""

_SPOT = (
    r"\b(?:gke-spot|gke-preemptible)\b[^\n]{0,300}(?:\n[^\n]{0,300}){0,6}?\btrue\b"
    r"|\bcapacity-?[Tt]ype\b[^\n]{0,60}\b(?:SPOT|spot)\b"
    r"|\bscalesetpriority['\"]?[=:] ?['\"]?spot\b|\b(?:spot|preemptible)['\"]?[=:] ?['\"]?true\b"
    r"|--preemptible\b|--spot\b"
    r"|provisioningModel['\"]?[=:] ?['\"]?SPOT\b|\bInstanceLifecycle['\"]?: ['\"]spot"
)
"""Words of a cloud's nodes by which they are spot or preemptible ones."""
_ENDED = (
    r"will be terminated soon|Received SIGTERM, draining|TaintManagerEviction|NodeNotReady|node was terminated"
    r"|Node is (?:not ready|draining)|shutting down|GracefulNodeShutdown|NodeShutdown"
)
_SPOT_CURE = (
    "take on-demand or reserved machines for long jobs. Or make the job bear it: checkpoints often and at SIGTERM, a "
    "launcher that starts again (JobSet, torchrun --max-restarts, requeue, Ray's max_restarts). NCCL, its timeouts and "
    "keep-alives need no change"
)

LISTED_ROWS = {
    "process-limit": r"""
fork rejected by pids controller|\bpids\.(?:max|peak|current)\b && PidsLimit[^\n]{0,120}\n(?P<n>\d{1,6})\b ; the
 container's limit of processes and threads is reached (pids, {n}), and the kernel refuses further ones ;
 raise it: podman or docker run --pids-limit -1, podPidsLimit of the kubelet, TasksMax=infinity of a systemd unit. Or
 fewer loader workers and OMP_NUM_THREADS, OPENBLAS_NUM_THREADS. The user's own limit (ulimit -u) is another one
fork rejected by pids controller ; the limit of processes and threads of a control group is reached (pids), and the
 kernel refuses further ones ; raise it: podman or docker run --pids-limit -1, podPidsLimit of the kubelet,
 TasksMax=infinity of a systemd unit. Or fewer loader workers and OMP_NUM_THREADS, OPENBLAS_NUM_THREADS. The user's own
 limit (ulimit -u) is another one
[#$] ?ulimit -u\s*\n(?P<n>\d{1,5})\s*$|Max processes\s{1,20}(?P<n_>\d{1,5})\b|RLIMIT_NPROC (?P<n__>\d{1,5}) current ;
 the user's limit of processes and threads is reached (ulimit -u, {n}{n_}{n__}) ; raise nproc for that user:
 /etc/security/limits.d, LimitNPROC= of the service that starts the ranks (slurmd, sshd, the runtime). Or fewer
 loader workers and OMP_NUM_THREADS, OPENBLAS_NUM_THREADS
""",
    "file-system": r"""
This client was evicted by (?P<server>[\w.-]{4,60}?)[;\s] ; {title}: the server {server} threw this host out (evicted),
 and what it wrote or read then fails ; look at that server and at the network between (lctl ping, lfs check servers,
 errors of the host's NIC or LNet). Then {fix}
""",
    "ib-devices-missing": rf"""
does not support the kernel ABI of && {_MODULE} ; {{title}}; the host has {{module}} of release {{version}} ;
 put the driver (provider) of release {{version}} into the image, from the NIC vendor's package, or mount the host's. Or
 load the kernel's own {{module}}, which fits rdma-core. A provider is there; /dev/infiniband and NCCL_IB_HCA are right
""",
    "node-lost": rf"""
{_SPOT} && {_ENDED} ; the cloud took back a spot (preemptible) machine of the job: its node was drained and its
 processes got SIGTERM, and the others lost their connections to it ; {_SPOT_CURE}
(?:reason: kubernetes-pod-termination|Received SIGTERM, draining) && TaintManagerEviction|Stopping container
 ; Kubernetes ended a pod of the job with its node (eviction, drain, a spot machine that was taken back), and the others
 lost their connections to it ;
 look why: kubectl describe node, events of the node, the cloud's list of operations (preemption, maintenance,
 autoscaler). On spot machines: {_SPOT_CURE}
{_MAINTAINED} ; the cloud ended a machine of the job for maintenance of the host that it ran on, and others lost it ;
 nothing is to be repaired: start all processes of the job again from the last checkpoint, when the node is back or on
 another one. {_PLANNED}
{_HOST_FAILED} ; the host of the cloud under a machine of the job failed (host error), and others lost that machine ;
 start all processes of the job again from the last checkpoint: the cloud starts the machine anew on another host. Where
 the same machine goes again, have it replaced or reported (Google: faulty host API, support). Settings of the job and
 NCCL are not at fault
""",
}
