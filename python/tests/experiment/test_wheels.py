"""Releases come from pip or a folder, are kept by their hash, and files that are none are refused with a sentence."""

from __future__ import annotations

import base64
import hashlib
import random
import socket
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.experiment.bisect import library_file
from busbw.experiment.bisect.library_file import MEMBER, check_machine, platforms_of, unpack
from busbw.experiment.bisect.wheels import Folder, Published, Wanted, published, run_pip

INDEX = "nvidia-nccl-cu12 (2.32.3)\nAvailable versions: 2.32.3, 2.28.9, 2.26.2.post1, 2.26.2\n  INSTALLED: 2.28.9\n"


def wheel(folder: Path, version: str, content: bytes = b"\x7fELF", member: str = MEMBER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"nvidia_nccl_cu12-{version}-py3-none-manylinux_2_18_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(member), content)  # of 1980: the same bytes each time
    return path


class Pip:
    """Answers as pip does; `asked` are the words of every call."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []

    def __call__(self, words: Sequence[str], limit_s: float) -> str:
        assert limit_s > 0
        self.asked.append(words)
        if words[0] == "index":
            return INDEX
        wheel(Path(words[words.index("--dest") + 1]), words[-1].partition("==")[2], f"release {words[-1]}".encode())
        return ""


def test_a_release_is_fetched_once_and_kept_by_its_hash(tmp_path: Path) -> None:
    pip = Pip()
    source = Published("nvidia-nccl-cu12", "2.26.2", "2.32.3", tmp_path, pip)
    assert source.versions == ["2.26.2", "2.26.2.post1", "2.28.9", "2.32.3"]
    first = source.fetch("2.28.9")
    assert first.library.read_bytes() == b"release nvidia-nccl-cu12==2.28.9"
    assert first.library.parent.name == first.sha256 and len(first.sha256) == 64
    assert "--no-deps" in pip.asked[-1] and source.fetch("2.28.9") == first and len(pip.asked) == 2
    assert not list((tmp_path / "nvidia-nccl-cu12" / "downloads").iterdir()), "what was downloaded stays behind"
    # A library that was changed in the cache is not measured: it is fetched again.
    first.library.write_bytes(b"something else")
    first.library.unlink()
    assert source.fetch("2.28.9") == first and len(pip.asked) == 3


def test_a_changed_library_in_the_cache_is_replaced(tmp_path: Path) -> None:
    source = Published("nvidia-nccl-cu12", "2.26.2", "2.32.3", tmp_path, Pip())
    found = source.fetch("2.28.9")
    found.library.write_bytes(b"something else")
    assert source.fetch("2.28.9").library.read_bytes() == b"release nvidia-nccl-cu12==2.28.9"


def test_what_pip_says_of_a_failure_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pip index failed: .*--from-folder"):
        run_pip(["index", "versions"], 60)
    with pytest.raises(UserError, match="does not answer"):
        run_pip(["--version"], 1e-6)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        monkeypatch.setenv("PIP_TIMEOUT", "0.2")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        with pytest.raises(UserError, match="pip index failed: the package index does not answer"):
            run_pip(["index", "versions", "nvidia-nccl-cu12"], 60)
    with pytest.raises(UserError, match="lists no release"):
        published("nvidia-nccl-cu12", lambda *_: "nothing")
    python = tmp_path / "python"
    said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n  Expected sha256 00\n  Got   5e"
    python.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(UserError, match="pip download failed: the wheel that came has another hash than the index"):
        run_pip(["download"], 60)
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    with pytest.raises(UserError, match="cannot be started"):
        run_pip(["--version"], 60)


def test_releases_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "nccl"
    packed = wheel(folder, "2.28.9", b"packed")
    (folder / "2.27.3").mkdir()
    (folder / "2.27.3" / "libnccl.so.2").write_bytes(b"plain")
    (folder / "libnccl.so.2.32.3").write_bytes(b"named")
    (folder / "libnccl.so.2.32.3.txt.gz").mkdir()
    source = Folder(folder, "2.27.3", "2.32.3", tmp_path / "cache")
    assert source.versions == ["2.27.3", "2.28.9", "2.32.3"]
    assert [source.fetch(version).library.read_bytes() for version in source.versions] == [
        b"plain",
        b"packed",
        b"named",
    ]
    assert source.fetch("2.28.9").sha256 == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert source.fetch("2.27.3").level.library == str(folder / "2.27.3" / "libnccl.so.2")
    with pytest.raises(UsageError, match=r"2\.30\.3 is not in"):
        Folder(folder, "2.27.3", "2.30.3", tmp_path)
    (folder / "other-2.27.3").mkdir()
    (folder / "other-2.27.3" / "libnccl.so.2").write_bytes(b"twice")
    with pytest.raises(UserError, match=r"2\.27\.3 twice"):
        Folder(folder, "2.27.3", "2.32.3", tmp_path)


def test_folders_and_wheels_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder"):
        Folder(tmp_path / "none", "2.27.3", "2.32.3", tmp_path)
    with pytest.raises(UserError, match="holds no release"):
        Folder(tmp_path, "2.27.3", "2.32.3", tmp_path)
    whole = wheel(tmp_path, "2.28.9", bytes(range(256)) * 100)
    cut = tmp_path / "cut.whl"
    cut.write_bytes(whole.read_bytes()[:200])
    other = wheel(tmp_path / "other", "2.28.9", member="nvidia/other.so")
    broken = tmp_path / "broken.whl"
    data = bytearray(whole.read_bytes())
    data[60:90] = bytes(30)
    broken.write_bytes(data)
    for path in (cut, other, broken):
        with pytest.raises(UserError, match="is no wheel with"):
            unpack(path, tmp_path / "into" / path.name)
        assert not list((tmp_path / "into" / path.name).iterdir())


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_file, "MOST_BYTES", 1 << 20)
    with pytest.raises(UserError, match="which no NCCL is"):
        unpack(wheel(tmp_path, "2.28.9", bytes(2 << 20)), tmp_path / "into")


def test_a_wheel_whose_library_is_not_the_listed_one_is_refused(tmp_path: Path) -> None:
    whole = wheel(tmp_path, "2.28.9", b"packed")
    own = base64.urlsafe_b64encode(hashlib.sha256(b"packed").digest()).rstrip(b"=").decode()
    for name, digest in (("right", own), ("wrong", "A" * 43)):
        path = tmp_path / f"{name}.whl"
        path.write_bytes(whole.read_bytes())
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("nvidia_nccl_cu12-2.28.9.dist-info/RECORD", f"other,,\n{MEMBER},sha256={digest},6\n")
        if name == "right":
            assert unpack(path, tmp_path / name).read_bytes() == b"packed"
            continue
        with pytest.raises(UserError, match="another hash than the wheel's own list names"):
            unpack(path, tmp_path / name)
        assert not list((tmp_path / name).iterdir())


def test_of_several_wheels_the_one_for_this_machine_is_taken(tmp_path: Path) -> None:
    folder, cache = tmp_path / "nccl", tmp_path / "cache"
    wheel(folder, "2.27.3", b"first")
    here = wheel(folder, "2.28.9", b"here")
    other = folder / here.name.replace("x86_64", "aarch64")
    other.write_bytes(wheel(tmp_path / "other", "2.28.9", b"other").read_bytes())
    thirteen = folder / here.name.replace("cu12", "cu13")
    thirteen.write_bytes(wheel(tmp_path / "thirteen", "2.28.9", b"thirteen").read_bytes())
    for package, machine, content in (
        ("nvidia-nccl-cu12", "x86_64", b"here"), ("nvidia-nccl-cu13", "AMD64", b"thirteen"),
        ("nvidia-nccl-cu12", "arm64", b"other"),
    ):  # fmt: skip
        source = Folder(folder, "2.27.3", "2.28.9", cache, Wanted(package, machine))
        assert source.fetch("2.28.9").library.read_bytes() == content
    with pytest.raises(UserError, match="is for linux x86_64, and this machine is linux aarch64"):
        source.fetch("2.27.3")
    # Where ranks may run on other machines, nobody chooses.
    with pytest.raises(UserError, match="twice"):
        Folder(folder, "2.27.3", "2.28.9", cache)


def test_damaged_wheels_are_a_library_or_a_sentence(tmp_path: Path) -> None:
    source = wheel(tmp_path, "2.28.9", bytes(range(256)) * 8)
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr("nvidia_nccl_cu12-2.28.9.dist-info/RECORD", f"{MEMBER},sha256={'A' * 43},6\n" * 3)
    whole, chance, refused = source.read_bytes(), random.Random(20261128), 0
    for _ in range(1500):
        data = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.1 else whole)
        for _ in range(chance.randrange(1, 12)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        source.write_bytes(data)
        try:
            unpack(source, tmp_path / "into")
        except UserError as problem:
            refused += 1
            assert len(str(problem)) < 1000
        assert len(list((tmp_path / "into").iterdir())) <= 1
    assert refused > 1000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvidia_nccl_cu12-2.28.9-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", ["linux x86_64"]),
        ("nvidia_nccl_cu12-2.28.9-py3-none-musllinux_1_2_aarch64.whl", ["linux aarch64"]),
        ("nvidia_nccl_cu12-2.28.9-py3-none-win_amd64.whl", ["win x86_64"]),
        ("nvidia_nccl_cu12-2.28.9-py3-none-macosx_11_0_arm64.whl", ["macosx aarch64"]),
        ("nvidia_nccl_cu12-2.28.9-py3-none-any.whl", []),
        ("libnccl.so.2.28.9", []),
    ],
)
def test_the_machines_of_a_wheel(name: str, said: list[str]) -> None:
    assert platforms_of(name) == said


def test_a_library_of_another_machine_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libnccl.so.2.28.9"
    library.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + (183).to_bytes(2, "little") + bytes(100))
    check_machine(library, "aarch64")
    with pytest.raises(UserError, match="is for linux aarch64, and this machine is linux x86_64"):
        check_machine(library, "x86_64")


def test_early_releases_are_asked_for_where_an_end_is_one(tmp_path: Path) -> None:
    pip = Pip()
    Published("nvidia-nccl-cu12", "2.26.2", "2.32.3", tmp_path, pip)
    with pytest.raises(UsageError, match=r"2\.33\.1rc1 is not in what pip lists"):
        Published("nvidia-nccl-cu12", "2.26.2", "2.33.1rc1", tmp_path, pip)
    assert ["--pre" in words for words in pip.asked] == [False, True]
