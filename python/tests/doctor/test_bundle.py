"""Bundles carry a snapshot whole and no secret; what is no bundle is a sentence."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.doctor.bundle import MEMBER, read_bundle, write_bundle
from busbw.doctor.codec import encode
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.snapshot import TextFile
from busbw.errors import UserError

from .cases import CASES, conf, healthy, log


@pytest.mark.parametrize("name", CASES)
def test_a_bundle_gives_the_findings_of_the_machine(name: str, tmp_path: Path) -> None:
    snapshot = CASES[name]()
    write_bundle(snapshot, tmp_path / "b.tar.gz")
    again = read_bundle(tmp_path / "b.tar.gz")
    # Of texts only what matters is kept; a test of its own looks at them.
    bare = replace(again, source=snapshot.source, live=True, logs=(), confs=())
    assert bare == replace(snapshot, logs=(), confs=())
    assert [each.title for each in examine(gather(again))] == [each.title for each in examine(gather(snapshot))]


def test_no_secret_goes_into_a_bundle(tmp_path: Path) -> None:
    secret = "hunter2-not-for-you"
    text = f"NCCL_ALGO=Ring\n# password {secret}\nWANDB_API_KEY={secret}\nNCCL_PROTO=LL\n"
    noisy = log(f"epoch 1 token={secret}", "login " + secret)
    environment = {"NCCL_ALGO": "Ring", "WANDB_API_KEY": secret, "HOME": secret, "SLURM_JWT_TOKEN": secret}
    write_bundle(replace(conf(text, logs=(noisy,)), environment=environment), tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        content = b"".join(found.read() for each in archive if (found := archive.extractfile(each)))
    assert secret.encode() not in content
    again = read_bundle(tmp_path / "b.tar.gz")
    assert dict(again.environment) == {"NCCL_ALGO": "Ring"}
    assert (again.confs[0].text or "").splitlines() == ["NCCL_ALGO=Ring", "#", "#", "NCCL_PROTO=LL"]


def archive(path: Path, member: str, content: bytes) -> Path:
    with tarfile.open(path, "w:gz") as made:
        about = tarfile.TarInfo(member)
        about.size = len(content)
        made.addfile(about, io.BytesIO(content))
    return path


def changed(**changes: Any) -> bytes:
    return json.dumps({**encode(healthy()), **changes}).encode()


@pytest.mark.parametrize(
    ("member", "content", "says"),
    [
        ("other", b"{}", "it has no snapshot.json"),
        (MEMBER, b"{", "is no JSON"),
        (MEMBER, b"[" * 100000, "is no JSON"),
        (MEMBER, b"[]", "is no snapshot"),
        (MEMBER, changed(schema=99), "schema 99"),
        (MEMBER, changed(gpus=7), "a list was expected"),
        (MEMBER, changed(gpus=[{"index": "one"}]), "gpus[0].index: int was expected, not 'one'"),
        (MEMBER, changed(gpus=[{}]), "index of GpuState is missing"),
        (MEMBER, changed(colour="red"), "'colour' is no field of Snapshot"),
        (MEMBER, changed(machine={"source": "x", "connections": [{"a": "1", "b": "2", "path": "??"}]}), "one of X, NV"),
    ],
)
def test_what_is_no_snapshot_is_a_sentence(member: str, content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_bundle(archive(tmp_path / "b.tar.gz", member, content))
    assert says in str(caught.value) and "b.tar.gz" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b garbage", b"plain text", b"\x1f\x8b\x08" + b"\x00" * 50])
def test_what_is_no_archive_is_a_sentence(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    file.write_bytes(content)
    with pytest.raises(UserError, match="is no bundle"):
        read_bundle(file)


def test_a_bundle_that_claims_to_be_huge_is_refused_before_it_is_read(tmp_path: Path) -> None:
    about = tarfile.TarInfo(MEMBER)
    about.size = 1 << 40
    import gzip

    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(about.tobuf() + b"\0" * 10240))
    with pytest.raises(UserError, match="more than"):
        read_bundle(tmp_path / "b.tar.gz")


def test_a_file_that_could_not_be_read_stays_so(tmp_path: Path) -> None:
    snapshot = healthy(graph=TextFile("/g", None, "Permission denied"), environment={"NCCL_GRAPH_FILE": "/g"})
    write_bundle(snapshot, tmp_path / "b.tar.gz")
    assert read_bundle(tmp_path / "b.tar.gz").graph == snapshot.graph
