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
SECOND: dict[str, str] = {
    "rlphases": "",
    "rlreward": who(2) + _LATE,
    "accumulate": "",
    "loaderlate": "",
    "metricsdie": who(2) + _LATE,
    "validates": "",
    "shrinks": "",
    "idles": "",
    "unevenwork": "",
    "savestuck": who(6) + _LATE,
    "prompt": who(3) + _LATE,
    "pipepeer": who(1),
    "lastbatch": another("count", 5),
    "epless": f"{who(4)} sends.*{who(5)}.*{who(6)}",
    "epnothing": who(4) + f".*({who(5)}.*{who(6)}|{who(6)}.*{who(5)})",
    "eptakes": f"({who(4)}.*{who(7)}|{who(7)}.*{who(4)})",
    "killbeat": who(6) + "[^.]*ended",
    "gilbeat": who(4) + _LATE,
    "slowbeat": who(5) + _LATE,
}
"""Those of program_more.py, written when what the others had shown was mended."""
PROGRAMS |= SECOND
HELD_OUT = tuple(PROGRAMS)[::2]
"""Every second one, for a look at half of them."""
