"""What `busbw watch` must say of the jobs of stranger_job.py, written down before any of them was tried.

Five expectations were corrected since: of `zero`, `deadthread`, `twice`, `nested` and `wrongpart`.
"""

from __future__ import annotations

_LATE = r"rank 2 \(.*did not call #41"
_GONE = r"ank 2 \(.*(has ended|has exited|is gone|ended without)"
_LEFT = r"ank 2 \(.*(destroyed|exited|ended|did not call)"

MORE: dict[str, str] = {
    "evaluates": r"another count: rank 2 \(",
    "barrier": r"rank 2 \(.*left out #41",
    "lessdata": _LEFT,
    "swallowed": r"another count: rank 2 \(",
    "halfstep": r"rank 2 \(.*left out #41",
    "nanskip": r"ank [23] \(.*(destroyed|exited|ended|did not call)",
    "saves": r"ank 0 \(.*did not call #41",
    "ifzero": r"another count: rank 0 \(",
    "selfroot": r"another root: rank",
    "half": r"another type: rank 2 \(",
    "gathers": r"another collective: rank 2 \(",
    "zero": r"rank 2 \(.*left out #41",
    "inplace": "",
    "lateonce": "",
    "pdb": _LATE,
    "locks": _LATE,
    "worker": _LATE,
    "stopped": r"ank 2 \(.*stopped",
    "sigint": _GONE,
    "sigabrt": _GONE,
    "deadthread": r"rank 2 \(.*(left out|did not call) #4[12]",
    "forward": r"ank 2 \(",
    "twice": "",
    "onparent": r"ank 2 \(",
    "nested": r"ank 2 \(.*group",
    "onlyone": r"ank 2 \(.*(destroyed|ended)",
    "daemon": r"ank 2 \(.*(exited|ended|gone)",
    "worldsize": r"ncclCommInitRank",
    "twojobs": "",
    "killedin": _GONE,
    "slow": "",
    "condition": r"ank [12] \(.*did not call #41.*nor did rank [12]",
    "zeroevals": r"another collective: rank 0 \(",
    "polls": _LATE + r".*it has used ",
    "flock": _LATE,
    "wrongpart": r"rank 2 of the job",
}
