"""What no signature knows is told by the words it has: by its part of NCCL, its rank, its time, its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.meanings.topics import STUCK, UNKNOWN

from .test_corpus import loud


def test_a_line_that_may_speak_of_trouble_is_shown_as_unseen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text("the flux is not available\n")
    assert main(["doctor", "--log", str(path)]) == 3
    assert "job.log:1mayspeakoftrouble:theflux" in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("E1101 10:10:10.000001 4711 tcp_transport_flux.h:7] flux is odd", "kv-transfer"),
        ("E1101 10:10:10.000001       1 flux.go:7] no flux was found", "kubernetes-event"),
        ('time="2026-11-01T10:10:10Z" level=error msg="flux: 7"', "container-start"),
        ("[ERROR] Could not find the flux", "container-start"),
        ("ERROR: check_flux: flux is 7. FaultCode: NHC2001", "health-check"),
        ("ERROR Counted 7 odd memory elements on GPU 3", "gpu-memory-error"),
        ("ERROR Detected clocks event due to thermal violation in GPU 7.", "gpu-slowdown"),
        ("pynvml.NVMLError_Flux: Flux", UNKNOWN),
        ('x-7 {"level":"error","ts":"2026-11-01","msg":"flux"}', UNKNOWN),
    ],
)
def test_who_writes_an_unknown_error_is_told_by_its_form(line: str, name: str, tmp_path: Path) -> None:
    assert [each.name for each in loud(line + "\n", tmp_path)] == [name]


def test_the_first_unknown_error_stands_before_the_crash_that_follows(tmp_path: Path) -> None:
    text = "[app][error] flux failed! size:7\nFatal Python error: Aborted\n"
    assert [each.name for each in loud(text, tmp_path)] == [UNKNOWN, "process-crashed"]


@pytest.mark.parametrize(
    ("place", "about", "cure"),
    [
        ("transport/net_ib/new_file.cc:7", "RDMA", "ib_write_bw"),
        ("/build/rccl/hipify/src/misc/socket.cc:7", "sockets", "NCCL_SOCKET_IFNAME"),
        ("graph/tuning.cc:7", "choice of algorithms", "NCCL_ALGO"),
        ("graph/unheard.cc:7", "picture of GPUs", "NCCL_TOPO_FILE"),
        ("transport/nvls.cc:7", "multicast", "NCCL_NVLS_ENABLE=0"),
    ],
)
def test_a_warning_that_nobody_knows_is_told_by_its_part_of_nccl(
    place: str, about: str, cure: str, tmp_path: Path
) -> None:
    (finding,) = loud(f"n0:1:2 [0] {place} NCCL WARN The moon is in the wrong phase\n", tmp_path)
    assert finding.name == "nccl-warnings" and about in finding.title and cure in finding.fix


def test_errors_that_nobody_knows_are_shown_as_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.log"
    path.write_text("step 1 loss 2.0\nthe flux capacitor failed\n")
    assert main(["doctor", "--log", str(path)]) == 3
    said = "".join(capsys.readouterr().out.split())  # a long path is broken over lines
    assert "job.log:2speaksofanerror" in said and "theflux" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fatal: the flux capacitor failed\nfatal: so did the spare\n", "the first: fatal: the flux"),
        ("[rank3]: 2026-01-02T10:11:12 ERROR flux failed\n", "the first of rank 3 at 2026-01-02T10:11:12: "),
        ("step 4 loss 2.1\nERROR the flux failed\n", ""),  # what some helper says after a sign of life
        ("step 4 loss 2.1\nfatal: the flux failed\n", "the first: fatal: "),
        ("fatal: the flux failed\nstep 4 loss 2.1\n", ""),
        ("fatal: the flux failed\nRuntimeError: CUDA out of memory\n", ""),
        ("fatal: size=4, flux=1, error=2, log_level='error'\n", ""),  # how it was configured
    ],
)
def test_the_first_error_that_nobody_knows_is_told_with_its_rank_and_time(
    text: str, words: str, tmp_path: Path
) -> None:
    found = [each for each in loud(text, tmp_path) if each.name == UNKNOWN]
    assert [words in each.title and bool(each.fix) for each in found] == [True] * bool(words)


RULE = "-" * 74


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{RULE}\nYour flux asked for more processes than the\nmoon has nodes.\n{RULE}\n", "mpi-launch"),
        (
            f"[1,0]<stderr>:{RULE}\nThe node of the flux is no more, and its daemon too.\n[1,0]<stderr>:{RULE}\n",
            "mpi-launch",
        ),
        (f"{RULE}\nWARNING: no flux of the daemons on this node was seen.\n{RULE}\n", ""),
        (f"{RULE}\nAll that the moon has to say about the flux today\n{RULE}\n", ""),
        # Where a signature speaks of a line of the box, the box adds nothing.
        (f"{RULE}\nThere are not enough slots available in the system\n{RULE}\n", "mpi-launch"),
        (f"{RULE}\nPrimary job  terminated normally, but 1 process returned\na code.\n{RULE}\n", "killed-by-launcher"),
        (f"{RULE}\nThe flux of the node is no more, says its daemon.\n{RULE}\nstep 3 loss 2.0\n", ""),
    ],
)
def test_what_mpi_says_between_rules_is_told_as_one_sentence(text: str, name: str, tmp_path: Path) -> None:
    found = loud(text, tmp_path)
    assert [each.name for each in found] == [name] * bool(name)
    assert all(("MPI says: " in each.title) is ("flux" in text) for each in found)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("libfabric:85:17::efa:cq:fn():13<warn> the moon is of an invalid phase", "efa-error"),
        ("mlx5_3: the moon is missing", "ibv-call-failed"),
        ("the moon is missing", ""),
        ("mlx5_3: the moon is missing\nstep 3 loss 2.0", ""),
        ("INFO mlx5_3: the moon is missing", ""),
    ],
)
def test_where_nothing_went_on_even_a_hint_is_told(line: str, name: str, tmp_path: Path) -> None:
    assert [each.name for each in loud(line + "\n", tmp_path)] == [name] * bool(name)


@pytest.mark.parametrize(
    "form",
    ["NVRM: Xid (PCI:0000:1b:00): {}, pid=1", "GPU 3: Xid {} detected", "XID error {}: ", 'F_XID_ERRORS{{gpu="3"}} {}'],
)
def test_numbers_of_xids_are_known_in_every_form(form: str, tmp_path: Path) -> None:
    of = {
        number: [each.name for each in loud(form.format(number) + "\n", tmp_path)] for number in (79, 94, 110, 149, 16)
    }
    assert of == {
        79: ["gpu-off-bus"],
        94: ["gpu-memory-error"],
        110: ["gpu-error-other"],
        149: ["nvlink-error"],
        16: [],
    }
    assert loud("Xid 3 errors, Xid: 0\n", tmp_path) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[ERROR] trunk connection failure of NVLink 3, marking it", "nvlink-error"),
        ("mlx5_7: the flux of QP 12 failed", "ibv-call-failed"),
        ("fatal: the gloo capacitor aborted", "gloo-error"),
        ("the flux capacitor of ib_write_bw over mlx5_1 fails", "ibv-call-failed"),
        ("nvlink errors: 0", ""),
        ("n0:1:2 [0] NCCL INFO NVLink failed to flux", ""),
        ("nvlink failed: flux\nstep 12 loss 2.1", ""),
    ],
)
def test_an_error_in_unknown_words_is_told_by_the_part_it_names(line: str, name: str, tmp_path: Path) -> None:
    found = loud(line + "\n", tmp_path)
    assert [each.name for each in found] == [name] * bool(name)
    assert all(("no signature knows" in each.title or line in each.evidence[0].fact) and each.fix for each in found)


@pytest.mark.parametrize(
    ("text", "stuck"),
    [
        ("loading flux\nNCCL version 2.27.5+cuda12.9\n", True),
        ("NCCL version 2.27.5+cuda12.9\nusing flux\nNCCL version 2.27.5+cuda12.9\n", True),
        ("NCCL version 2.27.5+cuda12.9\nmodel loading took 3.1 s\n", False),
        ("NCCL version 2.27.5+cuda12.9\n" + "the moon\n" * 9, False),
        ("NCCL version 2.27.5+cuda12.9\nstep 3 loss 2.0\n", False),
        ('NCCL version 2.27.5+cuda12.9\n"POST /flux HTTP/1.1" 200 OK\n', False),
        ("NCCL version 2.27.5+cuda12.9\nRuntimeError: CUDA out of memory\n", False),
        ("loading flux\n", False),
        ("n0:1:2 [0] NCCL INFO Using network IB\nn0:1:2 [0] NCCL INFO comm 0xa rank 0 - Destroy COMPLETE\n", False),
    ],
)
def test_a_log_that_ends_where_ranks_look_for_each_other_is_told(text: str, stuck: bool, tmp_path: Path) -> None:
    found = [each for each in loud(text, tmp_path) if each.name == STUCK]
    assert len(found) == stuck and all("unless the log was cut off" in each.title and each.fix for each in found)


def test_a_warning_of_nccl_behind_a_strange_prefix_is_told(tmp_path: Path) -> None:
    found = loud("[host-1][77:78][0][flux.cc:89] NCCL WARN The moon is in the wrong phase\n", tmp_path)
    assert [(each.name, "wrong phase" in each.title) for each in found] == [("nccl-error", True)]


def test_an_object_that_is_no_record_is_a_log(tmp_path: Path) -> None:
    text = '{"at": 3, "said": ["CUDA out of memory"], "who": 4}\n'
    assert [each.name for each in loud(text, tmp_path)] == ["gpu-memory-full"]


def test_what_a_signature_knows_stands_before_what_words_name(tmp_path: Path) -> None:
    text = "nvlink flux failed\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert [each.name for each in loud(text, tmp_path)] == ["gpu-memory-full"]


def test_a_log_that_ends_within_a_traceback_is_not_called_healthy(tmp_path: Path) -> None:
    log = (
        "iteration 10 loss 2.1 time 0.4\nTraceback (most recent call last):\n"
        + '  File "/w/a.py", line 7, in f\n    f()\n' * 2
    )
    (finding,) = loud(log, tmp_path)
    assert finding.name == UNKNOWN and "within a traceback" in finding.title
    # Where the job goes on, or the exception is one that Python ignored, nothing is cut off.
    assert loud(log + "iteration 20 loss 2.0 time 0.4\n", tmp_path) == []
    assert loud("Exception ignored in: <function f at 0x7>\n" + log.partition("\n")[2], tmp_path) == []


WATCHDOG = "[rank0]:[E1 x.cpp:6] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8)\n"


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("[app][error] flux failed! size:7\n", UNKNOWN),
        ("[ERROR] flux is odd\n", "container-start"),
        ("n0:1:2 [0] graph/flux.cc:7 NCCL WARN The moon is in the wrong phase\n", "nccl-warnings"),
        ("RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly\n", "process-crashed"),
        ("2026-11-01 10:04:00,120 ERROR flux: timeout reading flux-7.tar after 300 s\n", UNKNOWN),
        ("2026-11-01 10:04:00,120 ERROR - read on /mnt/lustre/flux timed out\n", "file-system"),
    ],
)
def test_an_error_before_what_others_wait_for_stands_before_it(cause: str, name: str, tmp_path: Path) -> None:
    assert loud(cause + WATCHDOG, tmp_path)[0].name == name
    assert loud(WATCHDOG + cause, tmp_path)[0].name == "watchdog-timeout"


@pytest.mark.parametrize(
    "line",
    [
        "ERROR flux: timeout waiting for rank 7\n",
        "ERROR flux: broadcast of the flux timed out\n",
        "ERROR 11-01 10:10:10 [core.py:7] EngineCore encountered a fatal error.\n",
        "ERROR 11-01 10:10:10 [flux.py:7] The flux was written\n",
    ],
)
def test_what_only_waits_or_reports_does_not_stand_before_others_that_wait(line: str, tmp_path: Path) -> None:
    assert loud(line + WATCHDOG, tmp_path)[0].name == "watchdog-timeout"


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("                    RDMA_Write BW Test\n", "ibv-call-failed"),
        ("                    Send Latency Test\n", "ibv-call-failed"),
        ("$ ib_read_lat -d flux0 n1\n", "ibv-call-failed"),
        ("$ dcgmi diag -r 3\n", "health-check"),
        ("| Diagnostic                | Result                                         |\n", "health-check"),
        ("gpud[7]: started\n", "health-check"),
        ("", UNKNOWN),
    ],
)
def test_an_unknown_error_beside_a_program_that_checks_is_of_what_it_checks(
    frame: str, name: str, tmp_path: Path
) -> None:
    assert [each.name for each in loud(frame + "Failed to negotiate the flux\n", tmp_path)] == [name]
    hinted = [each.name for each in loud(frame + "the flux is missing\n", tmp_path)]
    assert hinted == ([] if name == UNKNOWN else [name])
