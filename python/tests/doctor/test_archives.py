"""An archive of logs is read as a folder of them would be, and nothing of it stays anywhere."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.reading import archives

FAULT = "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.\n"
MEMBERS = {"run/none_x/attempt_0/1/stderr.log": FAULT, "run/train.py": "raise RuntimeError('Xid 48, DBE')\n"}


def tar(members: dict[str, str], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def zipped(members: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return made.getvalue()


def found(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["doctor", *words])
    said = capsys.readouterr()
    return code, "".join((said.out + said.err).split())


@pytest.mark.parametrize(
    "pack",
    [tar, lambda each: tar(each, "w:gz"), lambda each: tar(each, "w:bz2"), lambda each: tar(each, "w:xz"), zipped],
    ids=["tar", "gz", "bz2", "xz", "zip"],
)
def test_the_logs_in_an_archive_are_read_and_named_by_their_place_in_it(
    pack: Callable[[dict[str, str]], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Path("logs.any").write_bytes(pack(MEMBERS))
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    code, said = found(capsys, "logs.any")
    assert code == 1 and "gpu-off-bus" in said and "gpu-memory-error" not in said
    assert "logs.any/run/none_x/attempt_0/1/stderr.log:1" in said and "/proc/" not in said
    assert found(capsys, "--json", "logs.any")[1].count("/proc/") == 0
    assert found(capsys, "--log", "logs.any")[0] == 1
    assert found(capsys, "--page", "page.html", "logs.any")[0] == 1
    assert "stderr.log" in Path("page.html").read_text() and "/proc/" not in Path("page.html").read_text()
    assert sorted(each.name for each in Path().iterdir()) == ["logs.any", "page.html"]
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_what_is_unfit_in_an_archive_is_passed_over_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"core": "\x7fELF\0\1", "../../x\x1b[31m.log": FAULT, "nccl.conf": "NCCL_P2P_DISABLE=1\n"}))
    code, said = found(capsys, str(path))
    assert code == 1 and "gpu-off-bus" in said and "p2p-disabled" in said
    assert f"passedover:{path}/coreisnotext" in said.replace(" ", "")
    assert "\x1b" not in said and "../" not in said


def test_an_archive_that_was_cut_off_holds_what_stands_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"a.log": FAULT, "b.log": "x" * 5000})[:4000])
    assert found(capsys, str(path))[0] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (tar({"a.py": "x", "b.log": ""}), "isanarchivewithoutalogin"),
        (zipped({"a.png": "x"}), "isanarchivewithoutalogin"),
        (zipped({"a.log": FAULT})[:-30], "cannotbeunpacked"),
        (tar({"a.log": FAULT})[:512], "cannotbeunpacked"),
    ],
)
def test_an_archive_that_holds_nothing_is_one_sentence(
    content: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    code, said = found(capsys, str(path))
    assert code == 2 and says in said and "Traceback" not in said


def test_links_and_devices_in_an_archive_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, secret = tmp_path / "a.tar", tmp_path / "secret.log"
    secret.write_text("NVRM: Xid (PCI:0000:03:00): 48, DBE\n")
    with tarfile.open(path, "w") as archive:
        for name, kind, target in (("l", tarfile.SYMTYPE, str(secret)), ("h", tarfile.LNKTYPE, str(secret)),
                                   ("d", tarfile.CHRTYPE, ""), ("p", tarfile.FIFOTYPE, "")):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
        member = tarfile.TarInfo("a.log")
        member.size = len(FAULT)
        archive.addfile(member, io.BytesIO(FAULT.encode()))
    code, said = found(capsys, str(path))
    assert code == 1 and "gpu-off-bus" in said and "gpu-memory-error" not in said


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [("MOST_MEMBERS", 1, "holdsmorethan1files"), ("MOST_BYTES", 70, "unpackstomorethan"),
     ("MOST_HEADERS", 1, "holdsmorethan1entries")],
)  # fmt: skip
def test_an_archive_is_read_within_bounds(
    limit: str, value: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(archives, limit, value)
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"a.log": FAULT, "b.log": FAULT}))
    code, said = found(capsys, str(path))
    assert code == 2 and says in said and "unpackit" in said


def test_an_archive_of_bundles_lays_them_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = {}
    for name in ("a", "b"):
        assert main(["doctor", "--collect", str(tmp_path / name)]) == 0
        inner[f"{name}.tar.gz"] = (tmp_path / name).read_bytes().decode("latin-1")
    path = tmp_path / "all.tar"
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, text in inner.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("latin-1")))
    path.write_bytes(made.getvalue())
    capsys.readouterr()
    code, said = found(capsys, str(path))
    assert code in {0, 1} and "2machines" in said and "/proc/" not in said
