"""A host whose memory is corrected all the time."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_STORMS, _MANY = 2, 100_000


def _most(groups: Groups) -> int:
    """The most errors that one counter shows."""
    return max((int(each["many"].replace(",", "")) for each in groups if "many" in each), default=0)


def holds(groups: Groups) -> bool:
    """Whether errors come so often that the kernel polls for them, or very many were counted: a few are no fault."""
    storms = sum("storm" in each for each in groups)
    return storms >= _STORMS or _most(groups) >= _MANY


def tell(groups: Groups) -> str:
    """Which module, and how many errors."""
    module = next((each["module"] for each in groups if each.get("module")), "") or next(
        (each["where"] for each in groups if each.get("where")), ""
    )
    most, storms = _most(groups), sum("storm" in each for each in groups)
    said = [f"module {module}"] if module else []
    said += [f"{most:,} so far"] if most >= _MANY else []
    said += ["the kernel detects storms of them"] if storms else []
    return f"the host's memory has errors without end, each corrected ({'; '.join(said)}): its processors stop for each"


SIGNATURE = Signature(
    name="host-memory-storm",
    stage=Stage.HARDWARE,
    title="the host's memory has errors without end, each corrected: its processors stop for each",
    patterns=(
        # The time before it tells one storm from the next.
        r"(?P<storm>.{4,60}\bmce: CMCI storm detected)",
        r"/ce_count\W{1,4}(?P<many>\d{6,12})\b",
        r"\b(?P<where>\S{0,40}(?:DIMM|Chan)\S{0,30}): (?P<many>\d{6,12}) Corrected Errors",
        r"\bfru_text: (?P<module>[\w/#-]{1,24}(?: [\w/#-]{1,12})?)",
        r"\bEDAC (?:\w{1,12} )?MC\d{1,2}: \d{1,9} CE .{0,60}? on (?P<where>\S{3,60})",
    ),
    holds=holds,
    tell=tell,
    explains=("machine-check", "straggler", "health-check"),
    confirm="grep . /sys/devices/system/edac/mc/mc*/ce_count twice, a minute apart; dmesg | grep -i -e edac -e CMCI",
    cure=(
        "take that host out of the job (drain, cordon), seat or replace that memory module, and let the BIOS repair or "
        "test it (PPR, memtest). Its place: ras-mc-ctl --error-count, ipmitool sel elist. GPUs, clocks and the "
        "network are not at fault"
    ),
    cost="every step takes as long as on that host",
    severity=Severity.WARNING,
    source="the Linux kernel: arch/x86/kernel/cpu/mce (CMCI storms), drivers/edac, drivers/firmware/efi/cper.c",
)
