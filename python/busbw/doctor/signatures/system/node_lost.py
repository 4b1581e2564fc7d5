"""A node of the job is gone or does not answer its launcher."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="node-lost",
    stage=Stage.SYSTEM,
    title="a node of the job is gone or no longer answers its launcher",
    patterns=(
        r"Spot (?:Instance|VM) (?:Interruption|Preempt|Evict)|ACPI G2 Soft Off",
        r"\bcompute\.instances\.preempted\b.{1,300}\bDONE\b",  # Google Cloud's list of operations
        r"\"EventType\": ?\"(?:Terminate|Redeploy)\"",
        r"\brank \d+ lost: node ",
        r"Failed to connect to GCS|GCS (?:server )?(?:may have|has) (?:died|been killed|crashed)",
        r"failed to connect to GCS within",
        r"DUE TO NODE.{0,60}FAIL",
        r"\bNODE_?FAIL\b",
        r"error: Node failure",
        r"\btype=node-failure\b",
        # As slurmctld's own log tells it.
        r"Nodes? \S{1,200} not responding, setting DOWN|Killing JobId=\S{1,40} on failed node",
        r"HOST_MAINTENANCE\b|maintenance-event (?!NONE)\w|DUE TO NODE REBOOT",
        r"System is (?:powering down|rebooting|halting|going down)|reboot: (?:Power down|Restarting system)",
        r"[Nn]ode is not responding",
        r"has been marked dead because",
        r"(?:ORTE|PRTE) has lost communication",
        r"\bNodeNotReady\b|\bNode is not ready\b",
        r"node\.kubernetes\.io/(?:unreachable|not-ready)",
        r"TaintManagerEviction",
        r"slurm_receive_msgs?:.{0,120}(?:timed out|failed)",
        r"(?:Zero Bytes were transmitted or received|Communication connection failure)",
        r"(?:lost|no) (?:contact|communication) with (?:the )?(?:node|host)",
        r"(?:instance|VM|node).{0,40}(?:was (?:preempted|reclaimed|deallocated)|interruption notice|host error)",
        r"missed? too many heartbeats",
        r"Timed out waiting for .{0,40}(?:raylet|daemon) .{0,40}(?:to|on)",
        r"\b[Hh]ost\b.{0,60}(?:is unreachable|was unreachable|is down|is lost|was lost)\b|TERM_UNKNOWN",
        r"\b[Nn]ode\b.{0,60}(?:was lost|is lost|not reachable|unreachable|has gone away|went (?:down|away))",
        # HyperPod's agent, of a node that it found unfit.
        r"\[Auto Resume\].{0,160}(?:Action: ?Replace|RETRYSTEP|with a new node)",
        # ParallelCluster's daemon, of nodes that do not come up.
        r"Node bootstrap error: Node|Setting cluster into protected mode",
        r"Host EC2 \(instance \S+\) terminated",
        r"[Ii]nstance (?:was )?(?:terminated|stopped|retired|reclaimed|deallocated)",
    ),
    unless=("untolerated taint", "nodes are available"),
    confirm="ping and ssh to that node; sinfo -R, kubectl describe node, ray status; its console and power log",
    cure=(
        "find why the node went (power, kernel panic, out of memory, network, preemption) and leave it out until then "
        "(--exclude, cordon). A node that answers again was overloaded: give its daemons a processor"
    ),
    source="Slurm, Open MPI, Ray and Kubernetes",
    explains=("job-cancelled", "process-crashed", "remote-error", "slurm-resources", "heartbeat-lost"),
)
