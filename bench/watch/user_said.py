"""What `busbw watch` must say of the jobs of user_job.py, written down before any of them was tried."""

from __future__ import annotations

from parallel_said import another, who

_LATE = "( did not call #| has left out #)"
_GONE = r"[^.]*(has ended|has exited|is gone|ended|exited|destroyed)"


def both(one: int, other: int) -> str:
    """Of two ranks, where the calls do not tell which is wrong."""
    return f"({who(one)}.*{who(other)}|{who(other)}.*{who(one)})"


USERS: dict[str, str] = {
    "twolocks": who(3) + _LATE,
    "fifowriter": who(5) + _LATE,
    "storagestops": who(4) + _LATE,
    "waitsforflag": who(2) + _LATE + ".*it has used ",
    "excepthandler": who(6) + _LATE,
    "mainexits": who(1) + _LATE,
    "restarted": who(3),
    "rootofconfig": another("root", 7),
    "peerofconfig": who(2),
    "sendsalone": both(2, 3),
    "halfprecision": another("type", 5),
    "groupturned": another("count", 6),
    "laststep": who(0) + f"({_GONE}|{_LATE})",
    "checkpoint": "",
    "evaluates": "",
    "evaluatesforever": who(0) + _LATE,
    "threadrank": r"rank 5\b",
    "groupopen": who(4) + ".*(ncclGroupEnd|group)",
    "pollaborts": who(2) + ".*abort",
    "cubeskips": who(6) + _LATE,
    "stageraises": who(7),
    "deadchild": who(2) + _LATE,
    "preempted": who(3) + _LATE,
    "compiles": "",
    "subprocess": who(1) + _LATE,
    "epochs": "",
}
"""As a regular expression of the only verdict; "" where nobody may be accused."""
USERS_HELD_OUT = tuple(USERS)[1::2]
"""Every second one, for a look at half of them."""
