"""The operating system's kernel stands still or has crashed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="kernel-hang",
    stage=Stage.SYSTEM,
    title="the kernel of a host stands still: processors or tasks make no progress, or it crashed",
    patterns=(
        r"\b(?:soft|hard) lockup\b",
        r"blocked for more than \d+ seconds",
        r"\brcu\w*.{0,60}(?:detected stalls|self-detected stall|starved)",
        r"Kernel panic(?! on )",
        r"NMI watchdog: Watchdog detected",
        r"BUG: (?:unable to handle|kernel NULL pointer|scheduling while atomic)",
        r"Oops: \w+ \[#",
    ),
    unless=("watchdog thread",),
    confirm="the lines and the stack behind it in dmesg; the same host again under load (stress-ng, dcgmi diag -r 3)",
    cure=(
        "drain the host; a task that is blocked names its file system or driver in its stack (NFS, Lustre, nvidia, "
        "mlx5): mend or update that one; reboot"
    ),
    source="the Linux kernel: kernel/watchdog.c, kernel/hung_task.c",
)
