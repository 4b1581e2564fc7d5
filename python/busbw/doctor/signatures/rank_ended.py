"""A launcher says that a rank ended with a code, and nothing else is known."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="rank-ended",
    stage=Stage.EFFECT,
    title="a rank's program ended with exit code {code}: its launcher says so, the reason is in that rank's log",
    patterns=(
        r"failed \(exitcode: (?P<code>[1-9]\d{0,2})\) local_rank: \d",
        r"^\W{0,4}exitcode *: (?P<code>[1-9]\d{0,2}) \(pid: \d",
        r"(?:exits|exited) with return code = (?P<code>[1-9]\d{0,2})\b",
    ),
    confirm="the same command with `torchrun --redirects 3 --tee 3 --log-dir logs`, and that rank's log",
    cure=(
        "read what the rank that is named first printed before its end, above this line or in its own log; decorate "
        "the program's main with torch.distributed.elastic's @record, so that the summary shows the error"
    ),
    source="torch/distributed/elastic; DeepSpeed launcher/launch.py",
    last=True,
)
