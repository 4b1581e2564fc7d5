"""Bundles carry a snapshot whole and no secret; what is no bundle is a sentence."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.reading.bundle import MEMBER, read_bundle, write_bundle
from busbw.doctor.reading.codec import decode, encode
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.text import describe, summary

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


def test_a_variable_that_is_no_utf_8_goes_into_a_bundle(tmp_path: Path) -> None:
    write_bundle(replace(healthy(), environment={"NCCL_BAD": "a\udcff"}), tmp_path / "b.tar.gz")
    assert dict(read_bundle(tmp_path / "b.tar.gz").environment) == {"NCCL_BAD": "a\udcff"}


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
        (MEMBER, changed(gpus=[{"index": 10**400}]), "a number of at most 64 bits was expected"),
        (MEMBER, b'{"gpus": [{"index": 1, "temperature_C": NaN}]}', "NaN is no number"),
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


def _paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*way, key))


WHOLE = encode(CASES["graph-file"]())
WAYS = list(_paths(WHOLE))
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), st.just([]), st.just({}),
    st.just("9" * 30), st.just(-1), st.just("\x1b[31m"), st.just([1, 2]),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(WAYS), ODD)
def test_one_odd_value_is_a_sentence_or_findings(way: tuple[Any, ...], odd: Any) -> None:
    raw = json.loads(json.dumps(WHOLE))
    place = raw
    for key in way[:-1]:
        place = place[key]
    if way:
        place[way[-1]] = odd
    else:
        raw = odd
    try:
        snapshot = decode(Snapshot, raw, "x")
    except UserError as problem:
        assert str(problem).startswith("x")
        return
    facts = gather(snapshot)
    findings = examine(facts)
    shown = "\n".join([*(line for each in findings for line in describe(each)), summary(facts, findings)])
    assert "\x1b" not in shown


def test_of_logs_a_bundle_keeps_lines_that_tell_and_no_others(tmp_path: Path) -> None:
    text = "loss 2.3 at /home/me/secret\nh:1:2 [0] NCCL INFO Using network IB\nRuntimeError: CUDA out of memory\n"
    write_bundle(healthy(logs=(TextFile("job.log", text),)), tmp_path / "b.tar.gz")
    [kept] = read_bundle(tmp_path / "b.tar.gz").logs
    assert kept.text == "\nh:1:2 [0] NCCL INFO Using network IB\nRuntimeError: CUDA out of memory\n"


def test_a_large_log_is_kept_in_a_bundle_too(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("step 1 loss 2.3\n" * 400_000 + "h:1:2 [0] NCCL WARN Duplicate GPU detected : rank 1 and rank 0\n")
    snapshot, _ = read_inputs(Inputs(logs=(str(path),)), healthy())
    assert snapshot.logs[0].text is None, "it stays on disk"
    write_bundle(snapshot, tmp_path / "b.tar.gz")
    assert "duplicate-gpu" in {each.name for each in examine(gather(read_bundle(tmp_path / "b.tar.gz")))}
