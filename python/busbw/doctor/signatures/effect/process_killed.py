"""A shell says that a process was killed, and nobody says why."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="process-killed",
    stage=Stage.EFFECT,
    title="a process was killed (SIGKILL): most often the host or its container ran out of memory",
    patterns=(
        r"^\W{0,8}Killed\W{0,4}$|: line \d+: +\d+ Killed\b",
        r"\.service: Main process exited, code=killed, status=9/KILL",
    ),
    confirm="`dmesg | grep -i -e oom -e killed` on that host; kubectl describe pod; sacct -j JOB -o MaxRSS,State",
    cure=(
        "ask for more memory (--mem, the pod's limit), load the model on one rank at a time or with less pinned "
        "memory and fewer data loader workers. Where memory was left, somebody or a launcher ended it"
    ),
    source="the shell's word for signal 9",
    last=True,
)
