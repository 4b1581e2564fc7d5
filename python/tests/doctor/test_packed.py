"""Logs that are packed, and those that come through a pipe, are read as they would be from a plain file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.doctor.reading.inputs import bundles_of
from busbw.doctor.reading.packed import opened, read_start
from busbw.doctor.reading.pipes import kept

FAULT = "n0:1:2 [0] misc/socket.cc:4 NCCL WARN socketStartConnect: Connect to 10.0.0.5<4> failed : Connection refused\n"
LONG = "".join(f"step {each} loss 2.1 of {each * 7919 % 10007}\n" for each in range(9000)) + FAULT


TABLE = "#  size count type redop root time algbw busbw #wrong\n 1048576 262144 float sum -1 55.1 19.0 35.7 0\n"


def zstandard(data: bytes) -> bytes:
    if (program := shutil.which("zstd")) is None:
        pytest.skip("zstd is not here")
    return subprocess.run([program, "-c"], input=data, capture_output=True, timeout=60, check=True).stdout


def found(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["doctor", *words])
    said = capsys.readouterr()
    return code, " ".join((said.out + said.err).split())


@pytest.mark.parametrize("text", [FAULT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_a_folder_of_packed_logs_is_read(
    pack: Callable[[bytes], bytes], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(pack(text.encode()))
    code, said = found(capsys, str(tmp_path))
    assert code == 1 and "connection-refused" in said
    assert f"{tmp_path}/b:{text.count(chr(10))}:" in said.replace(" ", "")
    assert found(capsys, "--log", str(tmp_path / "a"))[0] == 1


def test_packed_archives_alone_are_bundles(tmp_path: Path) -> None:
    log, archive = tmp_path / "a.log.gz", tmp_path / "b.tar.gz"
    log.write_bytes(gzip.compress(LONG.encode()))
    with tarfile.open(archive, "w:gz") as file:
        file.addfile(tarfile.TarInfo("x"), io.BytesIO())
    assert bundles_of([str(log), str(archive)]) == [str(archive)]


def test_a_packed_log_that_was_cut_off_is_read_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(LONG.encode())[:-2000])
    with opened(path) as file:
        held = file.read()
    assert 1000 < len(held) < len(LONG) and LONG.startswith(held.decode())


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard], ids=lambda each: each.__name__
)
def test_a_packed_log_that_was_cut_off_is_told_as_cut(
    pack: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"step {each} loss {each * 7919 % 10007} {hash(str(each))}\n" for each in range(60_000))
    for text in (rows, TABLE + rows):
        path = tmp_path / "a"
        path.write_bytes(packed := pack(text.encode()))
        assert "packed file was cut off" not in found(capsys, str(path))[1]
        path.write_bytes(packed[: len(packed) // 2])
        code, said = found(capsys, str(path))
        assert "the packed file was cut off there" in said and code != 2, said


def test_what_is_broken_or_unpacks_to_far_too_much_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n" * (40 << 20)))
    much = f"busbw: {path} unpacks to more than a log of its size holds; unpack it yourself"
    assert found(capsys, str(path)) == (2, much)
    path.write_bytes(gzip.compress(b"abc")[:-8] + b"\0" * 8)
    with pytest.raises(UserError, match="cannot be unpacked"):
        read_start(path, 100)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("option", [[], ["--log"]], ids=["as a file", "as a log"])
def test_a_log_may_come_through_a_pipe(name: str, option: list[str]) -> None:
    command = [sys.executable, "-m", "busbw", "doctor", *option, name]
    done = subprocess.run(command, input=LONG, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "connection-refused" in done.stdout and "/dev/stdin:9001" in done.stdout


def test_a_pipe_with_a_name_and_one_of_a_descriptor_are_kept(tmp_path: Path) -> None:
    for place in ("/dev/fd", "/proc/self/fd"):
        read, write = os.pipe()
        os.write(write, b"flux")
        os.close(write)
        (name,) = kept([f"{place}/{read}"])
        assert name == f"{place}/{read}" and [Path(name).read_bytes() for _ in range(2)] == [b"flux"] * 2
        os.close(read)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'w').write('flux')"])
    (name,) = kept([str(path)])
    assert writer.wait(30) == 0 and Path(name).read_bytes() == b"flux"
    assert kept([str(tmp_path / "gone"), str(tmp_path)]) == [str(tmp_path / "gone"), str(tmp_path)]


def test_a_pipe_that_gives_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.doctor.reading.pipes.MAX_BYTES", 3)
    read, write = os.pipe()
    os.write(write, b"flux")
    os.close(write)
    with pytest.raises(UserError, match="save the part that matters"):
        kept([f"/dev/fd/{read}"])
    os.close(read)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log_of_which_nothing_is_left_is_not_called_empty(
    pack: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_bytes(pack(b"NCCL WARN x\n" * 99)[:10])
    assert main(["doctor", str(tmp_path / "log")]) == 2
    assert "cut off near its start" in capsys.readouterr().err


@pytest.mark.parametrize("zeros", [1, 4096])
def test_zeros_that_a_crash_left_in_a_log_hide_nothing(
    zeros: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"step 1 loss 2.1\n" + b"\0" * zeros + b"step 2 loss 2.0\n" + FAULT.encode())
    assert main(["doctor", str(log)]) == 1
    assert "connection-refused" in capsys.readouterr().out
    log.write_bytes(bytes(range(256)) * 40)
    assert main(["doctor", str(log)]) == 2
    assert "is no text" in capsys.readouterr().err
