"""Why a group failed: of what its launcher said, the words that tell the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.fleet.steps import MOST_LOG, _last_words

ADDED = "Warning: Permanently added 'n1' (ED25519) to the list of known hosts."
BOX = "-" * 74


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([ADDED, "bash: orted: command not found"], "bash: orted: command not found"),
        ([ADDED, "ssh: connect to host n1 port 22: No route to host", BOX, "ORTE was unable to reliably start"],
         "ssh: connect to host n1 port 22: No route to host"),
        (["** WARNING: connection is not using a post-quantum key exchange algorithm.",
          "** The server may need to be upgraded. See https://openssh.com/pq.html",
          "Permission denied (publickey)."],
         "Permission denied (publickey)."),
        ([BOX, "WARNING: There was an error initializing an OpenFabrics device.", BOX, "busbw: rank 1 has no GPU 3"],
         "busbw: rank 1 has no GPU 3"),
        ([BOX, "By default one process runs on a core.", BOX], "By default one process runs on a core."),
        ([ADDED], ADDED),
        ([BOX], BOX),
        (["starting", "the NIC went away", ""], "the NIC went away"),
    ],
)  # fmt: skip
def test_a_failed_group_tells_its_cause_and_no_warning(tmp_path: Path, lines: list[str], told: str) -> None:
    log = tmp_path / "group.log"
    log.write_text("\n".join(lines) + "\n")
    assert _last_words(log) == f": {told}"


def test_a_group_that_said_nothing_or_too_much(tmp_path: Path) -> None:
    log = tmp_path / "group.log"
    assert _last_words(log) == ""
    log.write_text("")
    assert _last_words(log) == ""
    log.write_text("error: early\n" + "x\n" * MOST_LOG + "error: late\n")
    assert _last_words(log) == ": error: late"
