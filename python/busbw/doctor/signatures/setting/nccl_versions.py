"""A log names several versions of NCCL: of ranks that do not understand each other, or of two runs."""

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def named(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """The versions that lines name, in order."""
    return sorted({each["version"].replace(", ", ".") for each in groups if "version" in each})


def in_line(line: str) -> list[str]:
    """The versions that a line names."""
    return named([each.groupdict() for pattern in SIGNATURE.patterns for each in re.finditer(pattern, line)])


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The versions."""
    return f"lines of the log name NCCL {' and '.join(named(groups)[:4])}"


SIGNATURE = Signature(
    name="nccl-versions",
    stage=Stage.SETTING,
    title="lines of the log name several versions of NCCL",
    patterns=(
        r"\bnccl==(?P<version>2\.\d{1,2}\.\d{1,2})\b",
        r"\bnccl\W{1,3}(?P<version>2, \d{1,2}, \d{1,2})\b",
        r"\bNCCL version:? (?P<version>2\.\d{1,2}\.\d{1,2})\b",
    ),
    unless=("compiled with", "error", "warn"),
    severity=Severity.NOTE,
    confirm="python -c 'import torch; print(torch.cuda.nccl.version())' in the environment of each host",
    cure="where all lines are of one run, install one version on all hosts (one image)",
    cost="ranks may refuse each other, hang, or choose different algorithms",
    source="src/init.cc; vLLM's pynccl",
    holds=lambda groups: len(named(groups)) > 1,
    tell=tell,
)
