"""What busbw keeps is its owner's alone, links are not followed, and nothing acts on a terminal by stderr either."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fuzzing import ENTRIES
from fuzzing_campaign import limited

from busbw.base.errors import UserError
from busbw.base.lock import NAME, alone_in
from busbw.base.terminal import guarding
from busbw.launch.carry_out import _write
from busbw.launch.plan import FilePlan
from busbw.watch.recording import Recording


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_acts_on_no_terminal(stream: str, capfd: pytest.CaptureFixture[str]) -> None:
    with guarding():
        print("a\x1b[31mb\x9b2Jc\u202ed", file=getattr(sys, stream))
    said = "".join(capfd.readouterr())
    assert "\\x1b[31m" in said and not {"\x1b", "\x9b", "\u202e"} & set(said)


def test_a_lock_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / NAME).symlink_to(victim)
    with pytest.raises(UserError), alone_in(tmp_path / "folder"):
        pass
    assert not victim.exists()


def test_a_recording_that_is_a_link_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    whole, link, pipe = tmp_path / "whole", tmp_path / "link", tmp_path / "pipe"
    whole.write_bytes(ENTRIES["recordings"].seeds(seeds)[0])
    Recording(whole).close()
    link.symlink_to(whole)
    os.mkfifo(pipe)
    for path in (link, pipe):
        with limited(5, wall=5), pytest.raises(UserError):
            Recording(path)


def test_a_script_that_is_submitted_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _write(FilePlan(tmp_path / "runs" / "job.sh", "#!/bin/sh\n"))
    finally:
        os.umask(before)
    assert (tmp_path / "runs" / "job.sh").stat().st_mode & 0o777 == 0o600
