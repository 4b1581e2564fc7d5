"""The GPU lowers its clock: heat, power."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-slowdown",
    stage=Stage.HARDWARE,
    title="a GPU holds its clock down: heat or power",
    patterns=(
        r"[Pp]ower cable.{0,40}not.{0,20}connected|power (?:connector|supply).{0,40}(?:not connected|insufficient)",
        r"(?:hw_thermal_slowdown|hw_power_brake_slowdown|hw_slowdown)\W{1,4}(?:Active|1\b|True)",
        r"\bGPUs?\b.{0,60}temperature\b.{0,60}(?:exceed|above|over|too high|critical)",
        r"\bGPUs?\b.{0,80}(?:clocks? (?:was |were |is |are )?(?:reduced|throttled|capped|limited)"
        r"|power (?:is )?limited to)",
        r"HW (?:Thermal )?Slowdown *: Active",
        r"HW Power Brake.{0,20}: Active",
        r"SW Thermal Slowdown *: Active",
        r"SW Power Cap *: Active",
        r"\b(?:enforced\.)?power\.limit: (?P<cap>\d{2,4})\b.{0,200}\bpower\.default_limit: (?!(?P=cap)\b)\d",
        r"GPU.{0,40}thermal (?:slowdown|shutdown|violation)",
        r"Power (?:Supply|Unit)\b.{0,100}(?:AC lost|[Ff]ailure detected|[Rr]edundancy [Ll]ost|[Pp]redictive failure)",
        r"\bTemp\w*\b.{0,80}\b(?:Lower|Upper) (?:Critical|Non-recoverable) going (?:low|high)",
        r"clocks? event.{0,40}\bHW_(?:POWER_BRAKE|THERMAL|SLOWDOWN)",
        r"power (?:brake|cap).{0,20}(?:asserted|engaged)",
        r"clocks_(?:event|throttle)_reasons\S{0,40}: *0x[0-9a-f]{0,14}[2-9a-f]0\b",
        # Bits of the hardware: slowdown (0x8), heat (0x20, 0x40), power brake (0x80).
        r"clocks_(?:event|throttle)_reasons\.active: 0x[0-9a-f]{0,14}(?:[2-9a-f][0-9a-f]|[0-9a-f][89a-f])\b",
    ),
    explains=("straggler",),
    confirm="nvidia-smi -q -d PERFORMANCE,CLOCK,POWER while the job runs",
    cure=("mend cooling or the power supply; raise the limit again (nvidia-smi -pl DEFAULT, nvidia-smi -rac)"),
    cost="collectives run at the slowest GPU's clock",
    severity=Severity.WARNING,
    source="nvidia-smi's own words (nvidia-smi -q -d PERFORMANCE)",
)
