"""Canaries in what busbw reads from others and is told in words: with those of test_secrets.py, 67 places."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from secret_forms import FORMS, HELD_OUT, TUNED, drawn, pieces
from test_secrets import BUILD, CANARIES, ENGINE, LOG, TABLE, busbw, canary, everything

from busbw.base.secrets import hide, hide_random
from busbw.fleet.steps import _last_words as last_words

# Those without several digits may be words of people: nothing can tell them from names.
_DRAWN = [text for text in map(canary, range(300, 600)) if sum(c.isdigit() for c in text) > 3]
PLACES = (
    "record: value", "record: name", "record: kept name", "record: address", "record: signature", "record: command",
    "record: heading", "conf: name", "conf: address", "conf: comment", "conf: other name", "conf: value", "log: bearer",
    "log: bare", "log: address", "log: password", "experiment: name", "experiment: value", "launch: name",
    "launch: value", "launch: address", "launch: word", "azureml: name", "azureml: value", "flight: group",
    "flight: operation", "flight: frame", "tar: command", "gzip: command", "error: word", "error: verb", "error: path",
    "trial: address", "trial: name", "group: name",
)  # fmt: skip
AT = dict(zip(PLACES, _DRAWN, strict=False))


def test_there_are_more_than_fifty_places() -> None:
    assert len(AT) == len(PLACES)
    assert len({*AT.values(), *CANARIES}) == len(PLACES) + len(CANARIES) >= 60


def seen(texts: Iterator[bytes] | list[bytes]) -> list[str]:
    whole = b"\0".join(texts)
    return [place for place, text in AT.items() if text.encode() in whole]


def of_others(folder: Path) -> Path:
    """A record as somebody else may have written it."""
    log = folder / "plain.log"
    log.write_text(TABLE)
    source = folder / "plain.jsonl"
    busbw("import", str(log), "-o", str(source), runs=folder / "none")
    first, *rest = source.read_text().splitlines()
    run = json.loads(first)
    run["environment"] = {"NCCL_X": f"hf_{AT['record: value']}", "MY_TOKEN": AT["record: name"],
                          "NCCL_SECRET": AT["record: kept name"]}  # fmt: skip
    run["source"] |= {
        "url": f"https://u:{AT['record: address']}@example.org/x?sig={AT['record: signature']}",
        "command": f"mpirun ./all_reduce_perf --token {AT['record: command']}",
        "heading": f"password: {AT['record: heading']}",
    }
    path = folder / "alien.jsonl"
    path.write_text("\n".join([json.dumps(run), *rest]) + "\n")
    return path


def test_records_of_others_are_shown_and_kept_without_secrets(tmp_path: Path) -> None:
    record, out = of_others(tmp_path), tmp_path / "out"
    out.mkdir()
    said = [
        busbw("import", str(record), runs=tmp_path / "runs"),
        busbw(
            "report", str(record), "--columns", "MY_TOKEN", "--output", str(out / "page.html"), runs=tmp_path / "runs"
        ),
        busbw("report", str(record), "--format", "json", "--every", runs=tmp_path / "runs"),
        busbw("compare", str(record), str(tmp_path / "plain.jsonl"), runs=tmp_path / "runs"),
    ]
    assert b"hf_" not in b"".join(said)
    assert (out / "page.html").stat().st_size > 1000 and list((tmp_path / "runs").rglob("record.jsonl"))
    assert seen(said) == seen(everything(out)) == seen(everything(tmp_path / "runs")) == []


def test_the_doctor_shows_and_bundles_logs_confs_and_dumps_without_secrets(tmp_path: Path) -> None:
    conf, log, out = tmp_path / "nccl.conf", tmp_path / "job.log", tmp_path / "out"
    out.mkdir()
    conf.write_text(
        f"NCCL_SECRET_X={AT['conf: name']}\nNCCL_FOO=https://a:{AT['conf: address']}@h\n"
        f"#MY_TOKEN={AT['conf: comment']}\n"
        f"XX={AT['conf: other name']}\nNCCL_IB_HCA={AT['conf: value']} bad\n"
    )
    log.write_text(
        f"h:1:1 [0] misc/x.cc:3 NCCL WARN Error: bearer {AT['log: bearer']} https://u:{AT['log: address']}@h failed\n"
        f"Traceback: RuntimeError: NCCL error password='{AT['log: password']}' unhandled cuda error {AT['log: bare']}\n"
    )
    entry = {"collective_seq_id": 1, "profiling_name": f"https://u:{AT['flight: operation']}@h", "state": "scheduled",
             "process_group": ["0", f"ghp_{AT['flight: group']}"], "input_sizes": [[4]],
             "frames": [{"name": AT["flight: frame"], "filename": "x.py", "line": 1}]}  # fmt: skip
    ranks = [{"rank": 0, "entries": [entry]}, {"rank": 1, "entries": [{**entry, "input_sizes": [[8]]}]}]
    (tmp_path / "flight.json").write_text(json.dumps(ranks))
    files = ("--conf", str(conf), "--log", str(log), str(tmp_path / "flight.json"))
    said = [
        busbw("doctor", *files, "-v", "--page", str(out / "page.html"), runs=tmp_path / "runs"),
        busbw("doctor", *files, "--json", runs=tmp_path / "runs"),
        busbw("doctor", *files, "--collect", str(out / "bundle.tar.gz"), runs=tmp_path / "runs"),
    ]
    assert b"NCCL_SECRET_X" in said[0] and b"process group" in said[0] and len(list(out.iterdir())) == 2
    assert seen(said) == seen(everything(out)) == []


def test_launches_packed_logs_and_errors_show_no_secrets(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    out.mkdir()
    variables = (f"NCCL_SECRET={AT['launch: name']}", f"NCCL_FOO=sk-proj-{AT['launch: value']}",
                 f"FOO=https://a:{AT['launch: address']}@h/")  # fmt: skip
    given = [f"--env={each}" for each in variables]
    word = f"--launcher-arg=--api-key={AT['launch: word']}"
    example = tmp_path / "azureml.toml"
    example.write_bytes(busbw("azureml", "example", runs=runs))
    vary = ("--vary", f"NCCL_SECRET={AT['experiment: name']},x", "--vary", f"NCCL_FOO=hf_{AT['experiment: value']},x")
    log = f"export HF_TOKEN={{}}\n./all_reduce_perf -b 8\n{TABLE}"
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(log.format(AT["gzip: command"]).encode()))
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        data = log.format(AT["tar: command"]).encode()
        member = tarfile.TarInfo("a/job.log")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    said = [
        *(busbw("run", "--dry-run", "--launcher", *words, "--ranks", "2", *given, "all_reduce", runs=runs)
          for words in (("local",), ("mpirun", word), ("slurm", word), ("k8s", "--image", "r/x"))),
        busbw("azureml", "submit", "--config", str(example), "--dry-run", f"--env=NCCL_SECRET={AT['azureml: name']}",
              f"--env=NCCL_FOO=hf_{AT['azureml: value']}", "all_reduce", runs=runs),
        busbw("experiment", *vary, "--dry-run", "--", "all_reduce", runs=runs),
        busbw("import", str(tmp_path / "x.log.gz"), "-o", str(out / "gz.jsonl"), runs=runs),
        busbw("import", str(tmp_path / "x.tar.gz"), "-o", str(out / "tar.jsonl"), runs=runs),
        busbw("report", f"--api-key={AT['error: word']}", runs=runs),
        busbw(f"ghp_{AT['error: verb']}", runs=runs),
        busbw("import", f"/nowhere/ghp_{AT['error: path']}.log", runs=runs),
    ]  # fmt: skip
    assert all(b"***" in text for number, text in enumerate(said[:5]) if number != 3), said[:5]
    assert b"variable.NCCL_SECRET" in said[3], "the manifest names the key of the job's Secret"
    assert seen(said) == seen(everything(out)) == []


@pytest.mark.skipif(not (BUILD / "lib" / "libbusbw_with.so").exists(), reason="the recorder is not built")
def test_recordings_metrics_and_timelines_of_a_job_hold_no_secret_of_its_environment(tmp_path: Path) -> None:
    said = busbw(
        "watch", "--output", str(tmp_path / "w"), "--prometheus", str(tmp_path / "w.prom"), "--trace",
        str(tmp_path / "w.json"), "--", str(ENGINE), "all_reduce", "-b", "8", "-e", "8", "-t", "2", "-n", "1",
        runs=tmp_path / "runs",
    )  # fmt: skip
    files = list(everything(tmp_path))
    assert len(files) >= 2, said
    assert not [text for text in CANARIES if text.encode() in b"\0".join([said, *files])]


def failing_engine(folder: Path) -> Path:
    """Fails as a library does that prints its variables and addresses."""
    engine = folder / "engine"
    engine.write_text(f"""#!/bin/sh
case "$1" in all_reduce) ;; *) exec {ENGINE} "$@" ;; esac
echo "NCCL INFO NCCL_SECRET set by environment to {AT["trial: name"]}"
echo "busbw: error: https://u:{AT["trial: address"]}@host/x does not answer" >&2
exit 3
""")
    engine.chmod(0o755)
    return engine


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_what_trials_print_and_why_they_failed_is_kept_without_secrets(tmp_path: Path) -> None:
    engine, runs = failing_engine(tmp_path), tmp_path / "runs"
    words = ("all_reduce", "-b", "8", "-e", "8")
    said = [
        busbw("experiment", "--vary", "NCCL_ALGO=Ring,Tree", "--ranks", "1", "--", *words, runs=runs, engine=engine),
        busbw(*words, "--library", "cpu", "--library", "cpu", runs=runs, engine=engine),
    ]
    kept = list(runs.rglob("output.txt"))
    assert len(kept) >= 3 and all(b"NCCL_SECRET set by environment to ***" in each.read_bytes() for each in kept)
    assert b"does not answer" in b"".join(each.read_bytes() for each in runs.rglob("trials.jsonl"))
    assert seen(said) == seen(everything(runs)) == []


def test_why_a_group_of_a_fleet_failed_is_kept_without_secrets_and_the_cause_stands_first(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(
        f"busbw: NCCL_SECRET={AT['group: name']} there is no device\nbusbw: Process 1 could not reach process 0\n"
    )
    assert last_words(log) == ": busbw: NCCL_SECRET=*** there is no device"


@pytest.mark.parametrize("name", FORMS)
def test_a_documented_form_is_hidden_in_a_line_and_in_a_value(name: str) -> None:
    for seed in range(3):
        text, bodies = drawn(name, seed)
        for shown in (hide(text), "\n".join(map(hide, text.split("\n"))), hide_random(text)):
            assert not [body for body in bodies for piece in pieces(body) if piece in shown], shown
    assert len(TUNED) == len(HELD_OUT) == 30


@pytest.mark.parametrize(
    "text",
    [
        "image:24.10-py3@sha256:4f1c3f6d2a9b8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a3928170605",
        "/opt/spack/linux-ubuntu22.04-zen3/gcc-12.3.0/openmpi-5.0.5-k7cpsqwhzxo3trf5l2bmyae6n4gvd2ij/lib",
        "/nix/store/0c5b8vw40dy178xlpddw65q9gf1h2186-glibc-2.38/lib/libc.so.6",
        "GPU-0f3c2d1e-aaaa-bbbb-cccc-0123456789ab", "MIG-GPU-0f3c2d1e-aaaa-bbbb-cccc-0123456789ab/1/0",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b", "0x55d0c8a0b2c055d0c8a0b2c055d0c8a0b2c0",
        "n:1:3 [3] NCCL INFO comm 0x55d0c8a0b2c0 rank 3 nranks 8 cudaDev 3 busId 1a0 commId 0x7f2a9c61e4d83b05 - Init",
        "_ZN4c10d16ProcessGroupNCCL8WorkNCCL15checkTimeoutESt8optionalINSt6chrono8durationIlEEE",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "tcp://10.0.0.1:29500",
        "docker run -u 1000:1000 --gpus all image", "Standard_ND96isr_H100_v5", "kill -USR1 12345",
        "srun -u -p gpu -N 2", "nvcr.io/nvidia/pytorch:24.10-py3", "SHA256:mQ3vW8xK2pL9nB5tR7yZ1cF4gH6jD0sA",
    ],
)  # fmt: skip
def test_names_paths_digests_and_lines_of_nccl_stay(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    "form",
    [
        "- name: MY_TOKEN\n  value: {}\n- name: B\n  value: c", '{{"name": "MY_TOKEN", "value": "{}"}}',
        "n1: - name: MY_TOKEN\nn1:   value: {}\nn1: - name: B\nn1:   value: c",
    ],
)  # fmt: skip
def test_a_pair_of_a_manifest_loses_a_secret_that_no_form_betrays(form: str) -> None:
    shown = hide(form.format("hunter"))
    assert "hunter" not in shown
    assert hide(form.format("hunter").replace("TOKEN", "NODES")) == form.format("hunter").replace("TOKEN", "NODES")


def test_the_log_with_all_canaries_keeps_its_lines() -> None:
    assert len(hide("\n".join(LOG)).splitlines()) == len(LOG)
