"""What `busbw watch` must say of the jobs of program_job.py, written down before any of them was tried."""

from __future__ import annotations

from parallel_said import another, who

_LATE = "( did not call #| has left out #)"

PROGRAMS: dict[str, str] = {
    "fsdploader": who(5) + _LATE,
    "fsdplayer": who(5),
    "fsdpspins": who(5) + _LATE + ".*used",
    "saving": "",
    "savedies": who(4) + _LATE,
    "saveearly": "",
    "evalpair": "",
    "evalzero": another("count", 0),
    "actors": "",
    "serving": "",
    "servelock": who(6) + _LATE,
    "servecount": another("count", 2),
    "chunks": "",
    "chunksslow": "",
    "chunksless": who(2),
    "tokens": "",
    "tokencount": f"({who(3)}.*{who(1)}|{who(1)}.*{who(3)})",
    "tokenmore": f"({who(3)}.*{who(1)}|{who(1)}.*{who(3)})",
    "tokenlost": f"({who(6)}.*{who(1)}|{who(1)}.*{who(6)})",
    "shards": f"({who(5)}.*{who(0)}|{who(0)}.*{who(5)})",
    "exception": who(3),
    "star": who(3) + _LATE,
    "hoststops": who(4) + ".*stopped",
    "elastic": who(3) + _LATE,
}
"""As a regular expression of the only verdict; "" where nobody may be accused."""
HELD_OUT = tuple(PROGRAMS)[::2]
"""Every second one, for a look at half of them."""
