"""What launchers put before a line: the rank it came from and the time, stripped so that the line can be read."""

from __future__ import annotations

import re

# In the order in which they nest: a time (Azure ML, Kubernetes, mpirun --timestamp-output), then who said it.
_PREFIX = re.compile(
    r"""
    (?:\[?\d{4}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?::\s?|\ )
        (?:std(?:out|err)\ [FP]\ )?
      |(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ [A-Z][a-z]{2}\ [\d ]\d\ \d\d:\d\d:\d\d\ \d{4}(?=[\[<]))?
    (?:\[(?:[\w.@-]{1,80}@)?(?P<mpi>\d{1,9},\d{1,9})\](?:\[[^\]]{0,80}\])?<std(?:out|err|diag)>:
      |<std(?:out|err|diag)>:
      |\[(?P<torch>(?:default|rank|trainer|worker)[_-]?\d{1,9})\]:
      |\ {0,6}(?P<srun>\d{1,7}):\ (?=.)
      |(?P<pdsh>[A-Za-z](?=[\w.-]{0,62}\d)[\w.-]{0,62}):\ (?!Test\ ))?
    """,
    re.VERBOSE,
)


def split_prefix(line: str) -> tuple[str, str]:
    """(who, the line without its prefix); who is "" where no launcher named one."""
    match = _PREFIX.match(line)
    if match is None or match.end() == 0:
        return "", line
    return match[match.lastgroup] if match.lastgroup else "", line[match.end() :]
