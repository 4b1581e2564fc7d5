"""A launcher says that a rank ended with a code, and nothing else is known."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the exit code, where a line tells it."""
    code = next((each["code"] for each in groups if "code" in each), "")
    how = f" by signal {code[1:]}" if code.startswith("-") else f" with exit code {code}" if code else ""
    return f"a rank's program ended{how}: whoever watches it says so, the reason is in that rank's log"


def _is_back(groups: Sequence[Mapping[str, str]], count: int) -> bool:
    """Whether all that ended are services of the host, each once, and each of them was started again after that."""
    waiting: set[str] = set()
    for each in groups:
        if "back" in each:
            waiting.discard(each["back"])
        elif "lost" in each:
            waiting.add(each["lost"])
        else:
            return False
    return not waiting and count == len(groups)


def _ended(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether anything ended at all: that services start is said at each boot."""
    return not groups or any("back" not in each for each in groups)


SIGNATURE = Signature(
    name="rank-ended",
    stage=Stage.EFFECT,
    title="a rank's program ended: whoever watches it says so, the reason is in that rank's log",
    patterns=(
        r"\b(?P<gone>[\w@.-]{1,80})\.service: Start request repeated too quickly",
        r"\b(?P<lost>[\w@.-]{1,80})\.service: Main process exited, code=exited, status=(?P<code>[1-9]\d{0,2})/",
        r"\bsystemd\[\d{1,9}\]: Started (?P<back>[\w@.-]{1,80}?)\.service\b",
        r"failed \(exitcode: (?P<code>[1-9]\d{0,2}|-(?:[1235]|1[0-9]|2[0-9]|3[01]))\) local_rank: \d",
        r"^\W{0,4}exitcode *: (?P<code>[1-9]\d{0,2}) \(pid: \d",
        r"(?:exits|exited) with return code = (?P<code>[1-9]\d{0,2})\b",
        r"flux-job: task\(s\) exited with exit code (?P<code>[1-9]\d{0,2})",
        r"(?P<gone>\brank \d+ exited and exit-timeout=|Error waiting on exit barrier)",
        # Exceptions of vLLM's front, which only point at a worker's.
        r"(?P<gone>[Ss]ee (?:root cause|stack trace)\b.{0,12} (?:above|for (?:the )?root cause))",
    ),
    confirm="the same command with `torchrun --redirects 3 --tee 3 --log-dir logs`, and that rank's log",
    cure=(
        "read what the rank that is named first printed before its end, above this line or in its own log. Decorate "
        "the program's main with torch.distributed.elastic's @record, so that the summary shows the error"
    ),
    source="torch/distributed/elastic; DeepSpeed launcher/launch.py",
    tell=tell,
    holds=_ended,
    light=_is_back,
    last=True,
)
