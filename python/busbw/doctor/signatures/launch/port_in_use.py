"""Another process has the port."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="port-in-use",
    stage=Stage.LAUNCH,
    title="the port ({port}) is taken: another job, or a left-over process of this one",
    patterns=(
        r"(?:\d|\]|localhost|\*)(?::|', )(?P<port>\d{4,5})\b.{0,60}address already in use",
        r"\bport:? (?P<port>\d{3,5})\b.{0,80}(?:EADDRINUSE|address already in use)",
        r"Address already in use",
        r"EADDRINUSE",
        r"Failed to add (?:any )?port to server: \S{0,60}:(?P<port>\d{2,5})\b",
        r"No address added out of total \d+ resolved for '\S{0,60}:(?P<port>\d{2,5})'",
        r"Bind network on \S{1,60}:(?P<port>\d{2,5}) failed",  # Paddle
        r"another process is utilizing it",
        r"\bport\b.{0,30} (?:is |was )?already (?:in use|used|taken|bound|allocated|occupied)",
    ),
    # A socket of that kind has no port: slurm-spool tells of it.
    unless=("unix socket",),
    explains=(
        "master-unreachable",
        "rendezvous-timeout",
    ),
    confirm="ss -ltnp | grep PORT on rank 0's host",
    cure=(
        "end the left-over process, or take another port (torchrun --master-port, "
        "MASTER_PORT=29501; --standalone for one node)"
    ),
    source="errno EADDRINUSE",
)
