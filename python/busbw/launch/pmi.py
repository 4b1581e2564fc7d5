"""Hands a short text from rank 0 to all others through PMI-1, which hydra (MPICH, Intel MPI, MVAPICH) gives its ranks.

As engine/rendezvous/join/pmi1.cc: lines of text over a descriptor that is inherited.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from busbw.base.errors import UserError
from busbw.launch.place import Place

KEY = "busbw-fleet"
MOST_ANSWER = 1 << 16
LOOK_EVERY_S = 0.5
LOOKS_AT_DEAF = 4  # in a row
MOST_BETWEEN = 16  # wrappers between hydra's proxy and a rank of it


def handed_around(place: Place, text: str, environ: Mapping[str, str], limit_s: float) -> str | None:
    """What rank 0 gave; None where hydra offers no PMI. Every rank calls it; it ends when all have."""
    number = environ.get("PMI_FD", "")
    if place.launcher != "mpiexec" or not number.isdecimal() or len(number) > 6:
        return None
    pmi = _Pmi(int(number), time.monotonic() + limit_s)
    pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
    space = pmi.ask("cmd=get_my_kvsname", "my_kvsname").get("kvsname", "")
    if place.rank == 0:
        pmi.ask(f"cmd=put kvsname={space} key={KEY} value={text}", "put_result")
    pmi.ask("cmd=barrier_in", "barrier_out")
    if place.rank:
        text = pmi.ask(f"cmd=get kvsname={space} key={KEY}", "get_result").get("value", "")
    pmi.ask("cmd=finalize", "finalize_ack")
    return text


def proxy_waits_for_our_end() -> bool:
    """Whether hydra's proxy sleeps until a child of it ends, and so answers nobody (look_at_server of the engine)."""
    pid = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        for _ in range(MOST_BETWEEN):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
            if name.partition("(")[2].startswith("hydra"):
                return rest.split()[0] == "S" and Path(f"/proc/{pid}/wchan").read_text().startswith("do_wait")
            pid = int(rest.split()[1])
    return False


class _Pmi:
    """Questions and answers."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._pending = b""
        self._deaf = 0

    def _wait(self) -> None:
        """Until something has come; half a second at most."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise UserError("the ranks cannot meet: one of them did not come to mpiexec's meeting in time")
        if select.select([self._descriptor], [], [], min(left, LOOK_EVERY_S))[0]:
            return
        self._deaf = self._deaf + 1 if proxy_waits_for_our_end() else 0
        if self._deaf >= LOOKS_AT_DEAF:
            raise UserError(
                "mpiexec was told to end while it started this rank: its proxy only waits for the ranks to end, "
                "and answers none of them"
            )

    def ask(self, command: str, answer: str) -> dict[str, str]:
        """The fields of the answer."""
        try:
            os.write(self._descriptor, f"{command}\n".encode())
            while b"\n" not in self._pending:
                self._wait()
                if not select.select([self._descriptor], [], [], 0)[0]:
                    continue
                data = os.read(self._descriptor, 4096)
                if not data or len(self._pending) > MOST_ANSWER:
                    raise OSError
                self._pending += data
        except OSError:
            raise UserError(
                "the ranks cannot meet through mpiexec: its descriptor PMI_FD is not open here; "
                "set BUSBW_ADDRESS=HOST of rank 0 and BUSBW_SECRET"
            ) from None
        line, _, self._pending = self._pending.partition(b"\n")
        fields = dict(word.partition("=")[::2] for word in line.decode(errors="replace").split(" "))
        if fields.get("cmd") != answer or fields.get("rc", "0") != "0":
            raise UserError(
                f"the ranks cannot meet through mpiexec: it answered '{line.decode(errors='replace')[:80]}'"
            )
        return fields
