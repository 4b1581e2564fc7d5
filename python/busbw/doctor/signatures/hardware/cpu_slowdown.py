"""The processor lowers its clock."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cpu-slowdown",
    stage=Stage.HARDWARE,
    title="the processor holds its clock down: heat",
    patterns=(
        r"(?:Package|Core) temperature(?:/speed)? (?:is )?above threshold",
        r"cpu clock throttled",
        r"\bPROCHOT\b.{0,24}\bassert(?:ed)?\b",
    ),
    confirm="`dmesg | grep -i temperature`; ipmitool sdr type fan; turbostat",
    cure="mend cooling (fans, paste, air flow) of that host, or leave it out until then",
    cost="threads that feed GPUs and NICs run slower, and all ranks wait for the host",
    severity=Severity.WARNING,
    source="the Linux kernel: arch/x86/kernel/cpu/mce (therm_throt)",
)
