"""bench/doctor on a machine whose GPUs, speeds and faults are made up: what it says must be what was injected."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
BENCH = REPOSITORY / "bench" / "doctor"


def load(path):
    spec = importlib.util.spec_from_file_location(f"bench_doctor_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


outcome = load(BENCH / "judging.py")
faults = load(BENCH / "faults.py")
fake_machine = load(Path(__file__).with_name("fake_machine.py"))


def answer(*findings, proofs=()):
    return {"findings": [{"name": name, "severity": severity} for name, severity in findings], "proofs": list(proofs)}


def proof(name, verdict="proved", factor=4.0):
    return {"name": name, "verdict": verdict, "sentence": "said", "factor": factor, "now_busbw_GBps": 88.0,
            "mended_busbw_GBps": 355.0}  # fmt: skip


def test_a_fault_that_the_doctor_names_and_proves_is_found():
    found = outcome.judge("few-channels", "few-channels", answer(("few-channels", "warning"), ("conf-files", "note"),
                                                                 proofs=[proof("few-channels")]))  # fmt: skip
    assert (found.word, found.proved, found.factor, found.false_alarms) == ("found", True, 4.0, ())
    assert outcome.passed([found])


def test_a_finding_that_is_only_a_note_is_a_miss():
    assert outcome.judge("few-channels", "few-channels", answer(("few-channels", "note"))).word == "missed"


def test_what_nobody_injected_is_a_false_alarm_on_a_healthy_machine_too():
    healthy = outcome.judge("healthy", "", answer(("gpu-busy", "warning"), ("iommu", "note")))
    assert (healthy.word, healthy.false_alarms) == ("false alarm", ("gpu-busy",))
    found = outcome.judge("p2p", "p2p-disabled", answer(("p2p-disabled", "warning"), ("gpu-busy", "error")))
    assert found.false_alarms == ("gpu-busy",)
    assert not outcome.passed([found])


def test_found_but_not_proved_does_not_pass():
    found = outcome.judge("p2p", "p2p-disabled", answer(("p2p-disabled", "warning"),
                                                        proofs=[proof("p2p-disabled", "not sure", 1.2)]))  # fmt: skip
    assert found.found
    assert not found.proved
    assert not outcome.passed([found])


def test_the_summary_counts_found_missed_alarms_and_what_was_left():
    outcomes = [
        outcome.Outcome("healthy", "", found=True),
        outcome.Outcome("a", "x", found=True, proved=True),
        outcome.Outcome("b", "y", found=False, false_alarms=("z",)),
        outcome.Outcome("c", "w", found=False, reason="the doctor did not answer"),
    ]
    assert outcome.summary(outcomes) == "found 1 of 2, proved 1; missed: b; 1 false alarms; not judged: c"


def test_a_fault_gets_nothing_of_the_faults_in_the_callers_shell_and_multicast_stays_off():
    given = faults.base_environment({"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "1", "PATH": "/bin"})
    assert given["NCCL_NVLS_ENABLE"] == "0"
    assert "NCCL_P2P_DISABLE" not in given
    assert given["PATH"] == "/bin"


def test_the_graph_of_the_fault_is_one_that_the_doctor_can_read_and_calls_slow():
    from busbw.machine.nccl.graph_file import read_graph

    graph = read_graph(faults.slow_graph(4).encode(), "graph.xml")
    assert graph.ring is not None
    assert (len(graph.ring.channels), graph.ring.capacity_GBps, graph.ring.type_intra) == (2, 24.0, "SYS")
    assert not graph.problems


def test_every_fault_has_time_for_a_look_however_long_the_first_take():
    sys.path.insert(0, str(BENCH))
    try:
        share = load(BENCH / "__main__.py").share
    finally:
        sys.path.remove(str(BENCH))
    left, given = 147.0, []
    for faults in range(6, 0, -1):
        given.append(share(left, faults))
        left -= given[-1] + 1.5
    assert all(each >= 6.5 for each in given)
    assert left >= -10
    assert given[0] > 24


def run_bench(tmp_path, *words):
    (tmp_path / "machine").mkdir()
    environment = {**os.environ, **fake_machine.install(tmp_path / "machine"), "TMPDIR": str(tmp_path)}
    argv = [sys.executable, str(BENCH), "--out", str(tmp_path / "out"), "--settle", "0", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_a_graph_file_in_an_nccl_conf_is_found_proved_and_the_line_to_remove_is_named(tmp_path):
    done = run_bench(tmp_path, "--only", "graph-file", "--budget", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "found 1 of 1, proved 1; missed none; 0 false alarms" in done.stdout
    healthy, graph = json.loads((tmp_path / "out" / "doctor.json").read_text())
    assert healthy["word"] == "healthy"
    assert graph["factor"] == pytest.approx(3.6, rel=0.1)
    answers = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    (finding,) = [each for each in answers[1]["findings"] if each["name"] == "graph-file"]
    assert "remove line 1 of" in finding["fix"]


def test_what_lets_nothing_run_is_proved_by_the_remedy_and_what_a_conf_file_hides_by_its_cost(tmp_path):
    done = run_bench(tmp_path, "--only", "small-buffers,no-interface", "--budget", "80")
    assert done.returncode == 0, done.stdout + done.stderr
    _, buffers, interface = json.loads((tmp_path / "out" / "doctor.json").read_text())
    assert buffers["factor"] == pytest.approx(3.0, rel=0.1)
    assert "nothing can be measured as it is" in interface["said"]
    assert interface["mended_GBps"] == pytest.approx(355.0, rel=0.1)


def test_a_shared_gpu_is_found_and_its_cost_measured_with_the_other_process_stopped_in_turn(tmp_path):
    done = run_bench(tmp_path, "--only", "shared-gpu", "--budget", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    shared = json.loads((tmp_path / "out" / "doctor.json").read_text())[1]
    assert shared["factor"] == pytest.approx(2.0, rel=0.1)
    hog = int((tmp_path / "machine" / "hog.pid").read_text())
    assert not Path(f"/proc/{hog}").exists()


def test_without_the_time_for_a_proof_a_fault_is_still_looked_for(tmp_path):
    done = run_bench(tmp_path, "--only", "few-channels", "--budget", "4")
    assert done.returncode == 1
    found = json.loads((tmp_path / "out" / "doctor.json").read_text())[1]
    assert found["word"] == "found"
    assert "no time was left" in found["reason"]


def test_one_gpu_is_refused_in_a_sentence(tmp_path):
    done = run_bench(tmp_path, "--gpus", "1")
    assert done.returncode == 2
    assert "at least two" in done.stderr
