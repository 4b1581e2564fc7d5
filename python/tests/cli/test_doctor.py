"""`busbw doctor`: what it prints, how it ends, what it collects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.host import collect as collecting
from busbw.doctor.reading.bundle import write_bundle
from busbw.doctor.reading.snapshot import Snapshot
from busbw.machine.topology.model import Machine

from ..doctor.cases import environment, graph_case, healthy, log
from ..machine.nccl.samples import graph, topology


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """The machine that the test runs on, in the doctor's eyes."""
    seen = [healthy()]
    monkeypatch.setattr(collecting, "collect", lambda: seen[0])
    return seen


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "topo.xml").write_bytes(topology())
    (tmp_path / "graph.xml").write_bytes(graph([(0, 1)] * 2, 12, "SYS"))
    (tmp_path / "job.log").write_text(log().text or "")
    (tmp_path / "nccl.conf").write_text("NCCL_GRAPH_FILE=/opt/graph.xml\n")
    return tmp_path


def test_saved_files_are_judged_without_a_gpu(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--topology", f"{saved}/topo.xml", "--graph", f"{saved}/graph.xml"]) == 1
    out, err = capsys.readouterr()
    assert "2 ring channels of 12 GB/s, type SYS, where 12 NVLinks" in out
    assert "1 warning; examined" in out and err == ""
    assert max(map(len, out.replace(str(saved), "").splitlines())) <= 80


def test_files_are_recognised_by_what_they_hold(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(saved / name) for name in ("graph.xml", "topo.xml", "nccl.conf", "job.log")]
    assert main(["doctor", *names, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    [first] = [each for each in found["findings"] if each["name"] == "graph-file"]
    assert first["fix"].startswith(f"remove line 1 of {saved}/nccl.conf")
    assert first["proof"]["unset"] == ["NCCL_GRAPH_FILE"]
    assert first["proof"]["copies"] == [f"{saved}/nccl.conf without line 1"]


def test_a_graph_file_that_a_saved_conf_names_is_read_where_it_lies_here_too(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved / "nccl.conf").write_text(f"NCCL_GRAPH_FILE={saved}/graph.xml\n")
    assert main(["doctor", "--conf", f"{saved}/nccl.conf", "--topology", f"{saved}/topo.xml"]) == 1
    out = capsys.readouterr().out
    assert "could carry about 10 times" in out and "NCCL_CONF_FILE naming a copy of" in " ".join(out.split())


def test_a_healthy_machine_ends_with_0(here: list[Snapshot], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == ["no findings; examined this machine (4 x NVIDIA H200, 18 NVLinks each)",
                    "verdict: healthy as far as was seen"]  # fmt: skip


def test_notes_are_one_line_unless_asked(here: list[Snapshot], capsys: pytest.CaptureFixture[str]) -> None:
    here[0] = environment(NCCL_NVLS_ENABLE="0")
    assert main(["doctor"]) == 0
    brief = capsys.readouterr().out
    assert "busbw doctor -v" in brief and "cost " not in brief
    assert main(["doctor", "-v"]) == 0
    assert "cost " in capsys.readouterr().out


def test_a_host_without_gpus_passes_no_gate(here: list[Snapshot], capsys: pytest.CaptureFixture[str]) -> None:
    here[0] = healthy(machine=Machine("this machine"), gpus=())
    assert main(["doctor"]) == 3
    said = capsys.readouterr().out
    assert "verdict: cannot judge" in said and "no GPU was found" in said


def test_what_is_collected_is_examined_elsewhere(
    here: list[Snapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here[0] = graph_case()
    bundle = str(tmp_path / "node7.tar.gz")
    assert main(["doctor", "--collect", bundle]) == 0
    here[0] = healthy()
    assert main(["doctor", bundle]) == 1
    assert "remove line 2 of /etc/nccl.conf" in capsys.readouterr().out


def test_live_and_files_are_looked_at_together(here: list[Snapshot], saved: Path) -> None:
    assert main(["doctor", "--log", f"{saved}/job.log"]) == 0
    here[0] = environment(NCCL_P2P_DISABLE="1")
    assert main(["doctor", "--log", f"{saved}/job.log"]) == 0
    assert main(["doctor", "--live", "--log", f"{saved}/job.log"]) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--topology", "none.xml"], "none.xml cannot be read: No such file"),
        (["--graph", "none.xml"], "cannot be read"),
        (["--conf", "."], "cannot be read: it is a folder"),
        (["none.tar.gz"], "cannot be read"),
        (["garbage"], "garbage is no text"),
        (["--topology", "bomb.xml"], "a document type is not read"),
        (["--grpah", "x"], "did you mean '--graph'?"),
        (["broken.jsonl"], "broken.jsonl"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("garbage").write_bytes(b"\x00\xff garbage")
    Path("bomb.xml").write_text('<!DOCTYPE a [<!ENTITY a "x">]><system>&a;</system>')
    Path("broken.jsonl").write_text('{"kind": "nothing"}\n')
    assert main(["doctor", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1 and "Traceback" not in err


def test_a_bundle_beside_another_machine_is_refused(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(healthy(), saved / "b.tar.gz")
    assert main(["doctor", str(saved / "topo.xml"), str(saved / "b.tar.gz")]) == 2
    assert "examine it by itself" in capsys.readouterr().err


def test_the_page_to_send_holds_every_finding_and_runs_nothing(
    here: list[Snapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here[0] = environment(NCCL_P2P_DISABLE="1", NCCL_ALGO="<script>alert(1)</script>")
    path = tmp_path / "page.html"
    assert main(["doctor", "--page", str(path)]) == 1
    text = path.read_text(encoding="utf-8")
    for words in ("p2p-disabled", "Evidence", "Cost, expected", "Cure", "How to check", "What was not seen"):
        assert words in text
    assert "<script>" not in text and "default-src 'none'" in text
    assert main(["doctor", "--page", str(tmp_path / "none" / "page.html")]) == 2


def test_a_folder_stands_for_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = tmp_path / "logs", "n0:1:2 [0] NCCL INFO NET/IB : No device found.\n"
    folder.mkdir()
    assert main(["doctor", str(folder)]) == 2
    assert "holds no file; name the logs" in capsys.readouterr().err
    (folder / ".hidden").write_text("NVRM: Xid (PCI:0000:03:00): 48, DBE\n")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "x.py").write_text("NVRM: Xid (PCI:0000:03:00): 48, DBE\n")
    (folder / "deeper" / ".x").write_text("NVRM: Xid (PCI:0000:03:00): 48, DBE\n")
    (folder / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.log").write_text("NVRM: Xid (PCI:0000:03:00): 48, DBE\n")
    (folder / "a.log").write_text(text)
    assert main(["doctor", str(folder)]) == main(["doctor", "--log", str(folder)]) == 3
    below = folder / "none_x" / "attempt_0" / "1"
    below.mkdir(parents=True)
    (below / "stderr.log").write_text("NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.\n")
    assert main(["doctor", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "gpu-off-bus" in out and "attempt_0/1/stderr.log:1" in "".join(out.split())


def test_what_is_unfit_in_a_folder_is_passed_over_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "core.7").write_bytes(b"\x7fELF\0\1\2\3")
    assert main(["doctor", str(folder)]) == 2
    assert "none of the files" in capsys.readouterr().err
    (folder / "a.log").write_text("NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.\n")
    (folder / "topo.txt").write_text("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\t\n")
    assert main(["doctor", str(folder)]) == 1
    said = "".join(capsys.readouterr().out.split())
    assert "gpu-off-bus" in said and "core.7isnotext" in said and "topo.txt:3" in said
    assert main(["doctor", str(folder / "core.7")]) == 2, "what is named one by one has to be fit"


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize(("lines", "code"), [(["NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off."], 1), (["a"], 3)])
def test_a_reader_that_goes_away_takes_nothing_from_the_exit_code(
    lines: list[str], code: int, words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "doctor", str(path), *words],
        stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, b"")


def test_another_verb_whose_reader_goes_away_does_not_end_with_success(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "gate", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False,
        timeout=60, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
