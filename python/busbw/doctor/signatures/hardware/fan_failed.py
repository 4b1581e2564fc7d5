"""A fan of a host that stands still, or turns too slowly."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="fan-failed",
    stage=Stage.HARDWARE,
    title="a fan of the host stands still or is too slow ({fan}): its GPUs and NICs get hot and slow down",
    patterns=(
        # `ipmitool sdr`, and `ipmitool sensor` with the value before the state: critical, or beyond it.
        r"\b(?P<fan>\w{0,24}fan\w{0,24})(?: [\w ]{0,24})?\s{0,20}\|.{0,20}\|\s{0,4}(?:lnr|lcr|nr|cr|ucr|unr)\s{0,4}\|",
        r"\b(?P<fan>\w{0,24}fan\w{0,24})(?: [\w ]{0,24})?\s{0,20}\|\s{0,8}[\d.]{1,12}\s{0,8}\| RPM"
        r"\s{0,10}\|\s{0,4}(?:lnr|lcr|nr|cr)\b",
        # A BMC's record of events.
        r"\b(?P<fan>Fan(?: [#\w]{1,24})?)\b.{0,60}\bLower (?:Critical|Non-recoverable) going low",
        r"\b(?P<fan>\w{0,16}fan\w{0,16})\b.{0,40}(?:\bhas (?:failed|stopped)|\bis not (?:spinning|working)"
        r"|(?<!no )(?<!not )\bfailure detected|\bfailed\b.{0,30}\bRPM|\bRPM is (?:less|lower|below))",
    ),
    unless=("fanout", "fan-out", "fan_out", "fan out", "fanin", "clears", "deasserted", "predictive failure deassert"),
    explains=("gpu-slowdown", "nic-hot", "cpu-slowdown"),
    confirm="ipmitool sdr type Fan on that host (nvsm show fans); nvidia-smi -q -d TEMPERATURE under load",
    cure="replace the fan or its tray, close gaps in the airflow; leave the host out until its GPUs stay cool",
    cost="collectives run at the slowest GPU's clock",
    severity=Severity.WARNING,
    source="IPMI's sensors (ipmitool), as BMCs name them",
)
