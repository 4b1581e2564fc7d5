"""The processor reports faulty hardware."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="machine-check",
    stage=Stage.HARDWARE,
    title="the processor reports a hardware fault (machine check)",
    patterns=(
        r"Hardware error from APEI",
        r"Memory failure: 0x[\da-f]+: ",
        r"\bGHES\b.{0,60}(?:fatal|error)",
        r"mce: \[Hardware Error\]",
        r"Machine check (?:events? logged|exception)",
        r"EDAC .{0,60}\bUE\b",
    ),
    confirm="`dmesg | grep -i -e mce -e edac`; rasdaemon, ipmitool sel list",
    cure="drain the node and replace the memory module or processor that it names",
    source="the Linux kernel: arch/x86/kernel/cpu/mce",
)
