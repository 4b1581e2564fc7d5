"""The kernel has memory, but none in pieces of the size that a driver asks for."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="memory-fragments",
    stage=Stage.SYSTEM,
    title="the kernel finds no piece of memory of that size (page allocation failure): it is full or in small pieces",
    # Pieces up to eight pages (order 3) are found or the kernel's killer comes: a warning of these is of another kind.
    patterns=(r"\bpage allocation failure: order:(?:[4-9]|1\d)\b",),
    explains=("memlock", "ibv-call-failed", "registration-failed", "host-memory", "ib-async"),
    confirm="/proc/buddyinfo on that host: few pieces in its last columns; free -g: buff/cache",
    cure=(
        "on that host: sync, echo 3 > /proc/sys/vm/drop_caches, echo 1 > /proc/sys/vm/compact_memory, and try again; "
        "else reboot. Larger vm.min_free_kbytes keeps room; fewer, shorter queues (connections) need less. The limit "
        "on locked memory is not at fault"
    ),
    source="the Linux kernel: mm/page_alloc.c",
    soft=True,
)
