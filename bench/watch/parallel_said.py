"""What `busbw watch` must say of the jobs of parallel_job.py, written down before any of them was tried."""

from __future__ import annotations


def who(rank: int) -> str:
    """A rank by its number in the job, wherever it is in a communicator."""
    return rf"[Rr]ank ({rank} \([^(),]*, pid \d+\)|\d+ \([^(),]*, pid \d+, rank {rank} of the job\))"


def another(what: str, *ranks: int) -> str:
    """A call that is not alike on all ranks."""
    return rf"another [a-z, ]*{what}[a-z, ]*: " + ".*; ".join(map(who, ranks))


_LATE = "( did not call #| has left out #)"
_GONE = r"[^.]*(has ended|has exited|is gone|ended without|exited)"

PARALLEL: dict[str, str] = {
    "meshskip": who(2) + _LATE + "6",
    "meshcircle": "circle.*" + who(2),
    "meshfine": "",
    "mesh3": who(5) + _LATE + "6",
    "sequence": another("count", 3),
    "moefine": "",
    "moecounts": who(2),
    "moemissing": who(2),
    "moeskip": who(2),
    "microless": who(2),
    "micromore": who(2) + " waits in recv.*" + who(1),
    "microwarm": f"({who(2)}.*{who(3)}|{who(3)}.*{who(2)})",
    "microslow": "",
    "hierroot": another("root", 5),
    "hierleader": who(4) + _LATE,
    "hierflat": f"({who(0)}|{who(4)}).*(did not call|left out|circle)",
    "accum": another("count", 2),
    "bucketorder": another("count", 2),
    "bucketless": another("count", 2),
    "barriers": another("count", 2),
    "writes": "",
    "writeslong": "",
    "evalsome": "",
    "evalworld": another("collective", 0, 1),
    "plateau": another("collective", 2, 5),
    "prefetch": another("collective", 2),
    "store": who(0) + r" did not call #41.*nor did rank 1, 3",
    "onegroup": "",
    "selfsend": who(2),
    "vfork": who(2) + _LATE + "41",
    "bf16": another("type", 2),
    "asyncpoll": who(2) + " did not call #41.*used",
    "abortanew": who(2) + "[^.]*abort",
    "norank": who(2) + _LATE + "41",
    "frozen": who(2) + r".*(did not call #41|frozen)",
    "neverjoined": "",
    "twothreads": who(2) + _LATE + "41",
    "heartbeat": who(2) + _LATE + "41",
    "lazyorder": who(2) + ".*ncclCommInitRank",
    "allanew": "",
    "oldid": who(2) + ".*ncclCommInitRank|" + who(2) + _GONE,
    "samerank": r"[Rr]ank [23]\b",
    "onemore": r"rank 8, of which nothing was seen",
    "latejoin": "",
    "allpause": "",
    "fdless": who(2) + _GONE,
    "permuted": who(2) + _LATE,
    "seldom": who(2) + _LATE + "4",
    "manycomms": who(2) + _LATE + "1",
    "premul": another("operator", 2),
    "alarms": "",
    "killpeer": who(2) + _GONE,
    "oomskip": who(2) + _LATE + "41",
    "dupenv": r"[Rr]ank 3 \(" + r".*did not call #41",
}
"""As a regular expression of the only verdict; "" where nobody may be accused."""
HELD_OUT = tuple(PARALLEL)[1::2]
"""Every second one, for a look at half of them."""
