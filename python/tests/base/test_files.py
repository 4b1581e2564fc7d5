"""Files that a user names end in their content or in one sentence."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.base.errors import UserError, exiting_with
from busbw.base.files import read_bytes, read_start, read_text, refuse_read, replace_text, whole, writing
from busbw.base.prometheus import write_exposition
from busbw.base.toml import parse_toml
from busbw.records.writer import save_lines


def test_a_file_of_just_the_limit_is_read_and_one_byte_more_is_refused_with_the_hint(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_bytes(path, 1 << 20, hint="no plan is")) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(UserError, match=r"^the plan .*/file is larger than 1 MiB; no plan is$"):
        read_bytes(path, 1 << 20, what="the plan", hint="no plan is")
    assert read_start(path, 3) == b"xxx"


def test_what_cannot_be_read_decoded_or_written_is_named_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(UserError, match=r"/file cannot be read: No such file or directory$"):
        read_bytes(path, 1, hint="")
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"/file is no text in UTF-8$"):
        read_text(path, 9, hint="")
    with pytest.raises(UserError, match=r"/file/below cannot be written: Not a directory$"), writing(path / "below"):
        (path / "below").write_text("x")


def test_toml_is_a_document_or_a_sentence_that_names_the_file() -> None:
    pytest.importorskip("tomllib")
    assert parse_toml("[a]\nb = 1\n", "x.toml") == {"a": {"b": 1}}
    for number in ("21e400", "inf", "-nan"):
        with pytest.raises(UserError, match=rf"^x\.toml: {number} is no finite number; "):
            parse_toml(f"[a]\nb = {number}\n", "x.toml")
    with pytest.raises(UserError, match=r"^x\.toml is no TOML: "):
        parse_toml("a = = 1", "x.toml")


def test_the_exit_code_of_what_goes_wrong_within_is_the_one_asked_for() -> None:
    with pytest.raises(UserError, match=r"^as it was$") as caught, exiting_with(2):
        raise UserError("as it was")
    assert caught.value.exit_code == 2


def test_an_inode_that_comes_again_is_another_file(tmp_path: Path) -> None:
    read, kept = tmp_path / "read", tmp_path / "kept"
    read.write_text("x")
    kept.hardlink_to(read)
    read_start(read, 10)
    with pytest.raises(UserError, match="not overwritten"):
        refuse_read(kept)
    read.unlink()
    refuse_read(kept)


def test_a_terminal_that_is_named_does_not_become_ours() -> None:
    """A process without a terminal that opens one gets it as its own, and then its Ctrl-C."""
    code = (
        "import os, sys\nfrom busbw.base.errors import UserError\nfrom busbw.base.files import open_to_read\n"
        "try: open_to_read(sys.argv[1])\nexcept UserError: pass\n"
        "try: os.open('/dev/tty', os.O_RDWR)\nexcept OSError: print('none')\n"
    )
    master, slave = os.openpty()
    try:
        done = subprocess.run([sys.executable, "-c", code, os.ttyname(slave)], start_new_session=True, text=True,
                              capture_output=True, check=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])})  # fmt: skip
    finally:
        os.close(master)
        os.close(slave)
    assert done.stdout == "none\n"


def test_what_cannot_be_replaced_whole_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state"
    replace_text(path, "before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match="cannot be written"):
            replace_text(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("verb", ["save", "text", "exposition"])
def test_a_device_is_written_to_and_never_replaced(verb: str, tmp_path: Path) -> None:
    """Root would put a file into the place of /dev/null for the whole machine."""
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, Path("/dev/null").stat().st_rdev)
    except PermissionError:
        pytest.skip("only root makes devices")
    if verb == "save":
        save_lines(["{}\n"], device)
    elif verb == "text":
        replace_text(device, "text")
    else:
        write_exposition(device, [])
    assert stat.S_ISCHR(device.stat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


def test_an_open_descriptor_is_written_to(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom busbw.base.files import replace_text\n"
        "replace_text(Path('/dev/stdout'), 'all of it')"
    )
    before = os.lstat("/dev/stdout")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with (tmp_path / "out").open("wb") as file:
        for where in (subprocess.PIPE, file):
            done = subprocess.run([sys.executable, "-c", code], stdout=where, env=environment, text=True, check=True)
            assert (done.stdout or (tmp_path / "out").read_text()) == "all of it"
    assert os.lstat("/dev/stdout").st_ino == before.st_ino


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(RuntimeError), whole(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
    with whole(path, 0o600) as part:
        part.write_text("after")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("after", [path])
    assert path.stat().st_mode & 0o777 == 0o600
