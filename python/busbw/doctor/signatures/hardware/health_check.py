"""A program that checks nodes says that one is unfit."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="health-check",
    stage=Stage.HARDWARE,
    title="a check of the node's health failed: {what}",
    patterns=(
        r"(?P<what>(?:NVMLError_|NVML_ERROR_)(?:InsufficientPower|IrqIssue|INSUFFICIENT_POWER|IRQ_ISSUE|Timeout|TIMEOUT)\b.{0,60})",
        # Conditions of a node, as `kubectl describe node` lists them.
        r"^\s*(?P<what>(?!Xid)\w{2,40}(?:Error|Problem|Deadlock|Failure|Failed|Unhealthy|Degraded))\s+True\s+\w{3},",
        r"\bNHC: (?P<what>(?!.{0,60}\b(?:passed|success\w*|OK|ok)\b)check_\w{2,30}:.{5,120})",
        r"Health check failed: +(?P<what>.{5,140})",
        # The tables of `dcgmi diag`.
        r"(?P<what>\bFound [1-9]\d{0,19} (?:faulty|NaN-value) memory elements on GPU \d{1,3})",
        r"(?P<what>\bGPU \d{1,3} is running at PCI link (?:generation|width) \w{1,4})",
        r"(?P<what>\bBandwidth of GPU \d{1,3} in direction \w{2,12})",
        r"(?P<what>\bThere were thermal violations totaling|\bThermal violations totaling [\d.]{1,10} seconds)",
        r"(?P<what>\bGPU \d{1,3} only achieved a memory bandwidth of|\bA memory mismatch was detected on GPU \d{1,3})",
        r"(?P<what>\bMax (?:stress level|power) of [\d.]{1,10} did not reach)",
        r"\| (?P<what>[A-Z][\w /-]{2,40}?) *\| +Fail\b",
        r"\"health\": ?\"Unhealthy\".{0,20}\"reason\": ?\"(?P<what>[^\"]{3,140})",
        # The device plugin of Kubernetes, and what DLRover found before a job.
        r"(?P<what>cannot allocate unhealthy devices \S{3,60})",
        r"(?P<what>\bfault nodes are: \[\d[\d, ]{0,100}\])",
        r"(?P<what>node\b.{0,20}\bnetwork is (?:breakdown|not available))",
        r"(?P<what>\bFaultyInstance\b.{0,100})",
        r"(?P<what>\b(?:band ?width|busbw|throughput|latency)\b.{0,40}(?:less than|below|under|lower than|above)"
        r"\b.{0,30}\bthreshold.{0,80})",
        r"(?P<what>\bnvvs\b.{0,60}(?:fail|error))",
    ),
    explains=("process-crashed", "slurm-error", "job-cancelled", "python-exception", "illegal-access"),
    confirm="dcgmi diag -r 3 and the check's own log on that node; dmesg",
    cure="drain the node and follow what the check names: a missing GPU, a port that is down, memory or a link",
    source="node health checks (LBNL NHC, Azure's), dcgmi diag",
)
