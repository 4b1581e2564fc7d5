"""The processor reports faulty hardware."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_CORRECTED = frozenset({"corrected", "ce", "correctable"})


def light(groups: Sequence[Mapping[str, str]], _lines: int) -> bool:
    """Whether the hardware corrected every error of which it says what became of it."""
    fates = {each["fate"].lower() for each in groups if "fate" in each}
    return bool(fates) and fates <= _CORRECTED


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The fault, or that it was corrected."""
    if light(groups, 0):
        return "the host's hardware corrected errors of its own: nothing to do while they stay few"
    return SIGNATURE.title


SIGNATURE = Signature(
    name="machine-check",
    stage=Stage.HARDWARE,
    title="the processor reports a hardware fault (machine check)",
    patterns=(
        r"\bevent severity: (?P<fate>\w{2,20})",
        r"It has been (?P<fate>corrected) by h/w",
        r"\bEDAC .{0,60}\b(?P<fate>[CU]E)\b",
        r"Hardware error from APEI",
        r"Memory failure: 0x[\da-f]+: ",
        r"\bGHES\b.{0,60}(?:fatal|error)",
        r"mce: \[Hardware Error\]",
        r"Machine check (?:events? logged|exception)",
    ),
    confirm="`dmesg | grep -i -e mce -e edac`; rasdaemon, ipmitool sel list",
    cure="drain the node and replace the memory module or processor that it names",
    source="the Linux kernel: arch/x86/kernel/cpu/mce",
    light=light,
    tell=tell,
)
