"""Logs in the words of the field: the cause stands first, healthy logs give no finding, and silence is no health."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from busbw.base.effort import EFFORT
from busbw.cli.main import main
from busbw.doctor import signatures
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.lines import benign
from busbw.doctor.lines.triggers import TriggerIndex, triggers_of
from busbw.doctor.meanings.topics import STUCK
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.signature import Signature
from busbw.doctor.signature_page import page
from busbw.doctor.signatures import SIGNATURES

from .corpus import healthy
from .corpus.load import SHAPES, Case, cases, number_of, shaped

CASES = tuple(cases())


def loud(text: str, folder: Path) -> list[Finding]:
    path = folder / "job.log"
    path.write_bytes(text.encode())
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [each for each in found if each.severity is not Severity.NOTE]


def first_is_cause(case: Case, folder: Path) -> bool:
    found = loud(case.text, folder)
    return bool(found) and found[0].name in case.expected and bool(found[0].fix)


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    held = [each for each in CASES if each.held_out]
    assert len(CASES) >= 150 and 0.4 < len(held) / len(CASES) < 0.6
    assert len({each.name for each in CASES}) == len(CASES)
    assert {each.shape for each in CASES} == set(SHAPES)


@pytest.mark.parametrize("half", [False, True], ids=["seen", "held-out"])
def test_the_cause_is_named_first(half: bool, tmp_path: Path) -> None:
    mine = [each for each in CASES if each.held_out is half]
    EFFORT.lift()  # each of them is a call
    missed = [each.name for each in mine if not first_is_cause(each, tmp_path)]
    assert missed == [], "a case that was mended once stays mended"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cause_is_found_in_every_shape(shape: str, tmp_path: Path) -> None:
    lines = ["I0|NCCL version 2.21.5+cuda12.4", "W0|misc/socket.cc:452|socketStartConnect: Connect to 10.0.0.5<41021> "
             "failed : Connection refused", "I0|misc/socket.cc:563 -> 2"]  # fmt: skip
    assert [each.name for each in loud(shaped(lines, shape), tmp_path)] == ["connection-refused"]


@pytest.mark.parametrize(("name", "text"), list(healthy.logs()), ids=lambda each: each if len(each) < 80 else "")
def test_healthy_logs_give_nothing_above_a_note(name: str, text: str, tmp_path: Path) -> None:
    assert [(each.name, each.title) for each in loud(text, tmp_path)] == [], name
    path = tmp_path / "job.log"
    # Without an init that ended nothing tells health: that is said, and no fault is named. So it is of a table of which
    # nothing says what the machine is.
    assert main(["doctor", str(path)]) in ({0} if "Init COMPLETE" in text and "busbw" not in text else {0, 3})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("epoch 1 loss 2.3\nepoch 2 loss 2.1\n", "it holds no line of NCCL"),
        ("h:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n", "no communicator's init is in it"),
    ],
)
def test_silence_is_not_called_health(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(text)
    assert main(["doctor", "--log", str(path)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "verdict: cannot judge" in said and words in said


def test_the_page_lists_every_signature_as_it_is() -> None:
    shown = (Path(__file__).parents[3] / "docs" / "reference" / "signatures.md").read_text(encoding="utf-8")
    assert shown == page(), "run python3 tools/doctor_page"


def test_every_signature_stands_in_the_folder_of_its_stage() -> None:
    for folder in Path(signatures.__file__).parent.iterdir():
        for file in folder.glob("[!_]*.py"):
            module = import_module(f"{signatures.__name__}.{folder.name}.{file.stem}")
            assert module.SIGNATURE.stage.name.lower() == folder.name, file.stem
            assert SIGNATURES[module.SIGNATURE.name] is module.SIGNATURE


@pytest.mark.parametrize("each", SIGNATURES.values(), ids=list(SIGNATURES))
def test_every_signature_has_words_to_look_for_a_cure_and_a_source(each: Signature) -> None:
    assert all(words and min(map(len, words)) >= 3 for words in each.triggers)
    assert each.confirm and each.cure and each.source and each.title
    # Patterns are compiled when a trigger is met: that each can be is told here.
    assert all(re.compile(pattern, re.IGNORECASE) for pattern in each.patterns)
    assert all(name in SIGNATURES for name in each.explains)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("foo bars? x", ("foo bar",)),
        (r"Xid.{0,60}?\): (?:7|8)", ("xid",)),
        ("(?P<x>first|second) z", ("first", "second")),
        ("ab(?:long text)?cdef", ("cdef",)),
        ("one 22 twenty|three", (" twenty", "three")),
        ("(?-i:Great) 1", ("great",)),
        (r"[a-z]*", ()),
    ],
)
def test_triggers_are_in_every_match(pattern: str, words: tuple[str, ...]) -> None:
    assert triggers_of(pattern) == words


def test_the_index_finds_what_one_look_after_the_other_finds() -> None:
    sets = [[word for words in each.triggers for word in words] for each in SIGNATURES.values()]
    index = TriggerIndex(sets)
    for line in {line for case in CASES for line in case.text.lower().splitlines()}:
        assert index.of(line) == [at for at, words in enumerate(sets) if any(word in line for word in words)], line


@pytest.mark.parametrize("pattern", benign.PATTERNS, ids=lambda each: each.pattern[:40])
def test_every_benign_line_has_words_to_look_for(pattern: re.Pattern[str]) -> None:
    words = triggers_of(pattern.pattern)
    assert words and min(map(len, words)) >= 3


def test_an_effect_beside_its_cause_is_a_note(tmp_path: Path) -> None:
    text = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off.\nsocketProgress: Connection closed by remote peer n1\n"
    assert [each.name for each in loud(text, tmp_path)] == ["gpu-off-bus"]
    assert [each.name for each in loud(text.splitlines()[1], tmp_path)] == ["remote-error"]


def test_what_a_sequel_explains_is_not_its_cause(tmp_path: Path) -> None:
    text = (
        "n0:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<41733>\n"
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    )
    assert [each.name for each in loud(text, tmp_path)] == ["remote-error"]


def test_messages_without_a_host_tell_ranks_too(tmp_path: Path) -> None:
    comm = "ncclCommInitRank comm 0x{0} rank {0} nranks 2 cudaDev {0} nvmlDev {0} busId 1000 commId 0xa - Init START"
    text = "\n".join(f":{10 + rank}:{20 + rank} [{rank}] NCCL INFO {comm.format(rank)}" for rank in range(2)) + "\n"
    assert [each.name for each in loud(text, tmp_path)] == ["init-incomplete"]


COMPLETE = (
    "n0:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xa"
    " - Init {}\n"
)
NO_THREAD = "libgomp: Thread creation failed: Resource temporarily unavailable\n"


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("", "", ["process-limit"]),
        (COMPLETE.format("START"), COMPLETE.format("COMPLETE"), []),
        (COMPLETE.format("START"), "", ["process-limit"]),
        (
            COMPLETE.format("START"),
            COMPLETE.format("COMPLETE") + "torch.distributed.DistBackendError: NCCL error: unhandled system error\n",
            ["process-limit"],
        ),
    ],
    ids=["alone", "init ended after it", "init never ended", "failed later"],
)
def test_what_a_job_survived_is_a_note(before: str, after: str, names: list[str], tmp_path: Path) -> None:
    found = [each.name for each in loud(before + NO_THREAD + after, tmp_path)]
    assert [each for each in found if each != "init-incomplete"] == names


def test_broken_hardware_is_no_note_though_the_job_went_on(tmp_path: Path) -> None:
    text = (
        COMPLETE.format("START") + "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off.\n" + COMPLETE.format("COMPLETE")
    )
    assert [each.name for each in loud(text, tmp_path)] == ["gpu-off-bus"]


def test_an_ignored_exception_is_passed_over_and_the_next_one_is_not(tmp_path: Path) -> None:
    ignored = 'Exception ignored in: <function f at 0x7f>\nTraceback (most recent call last):\n  File "a.py", line 1\n'
    text = ignored + "OSError: [Errno 28] No space left on device\nKeyError: 'loss'\n"
    assert [each.name for each in loud(text, tmp_path)] == ["python-exception"]


@pytest.mark.parametrize(
    ("signal", "first"), [("6 (SIGABRT)", "watchdog-timeout"), ("11 (SIGSEGV)", "process-crashed")]
)
def test_an_abort_beside_a_timeout_is_the_watchdogs_own(signal: str, first: str, tmp_path: Path) -> None:
    text = f"[Rank 4] Watchdog caught collective operation timeout\ntraceback : Signal {signal} received by PID 4412\n"
    assert [each.name for each in loud(text, tmp_path)] == [first]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("socketStartConnect: Connect to 10.0.3.4<38177> failed : 拒绝连接", "connection-refused"),
        ("socketStartConnect: Connect to 10.0.3.4<38177> failed : Keine Route zum Zielrechner", "no-route"),
        ("Call to ibv_reg_mr failed with error Ne peut allouer de la mémoire", "memlock"),
        ("Call to socket failed: Слишком много открытых файлов", "too-many-files"),
        ("x: errore durante il caricamento delle librerie condivise: libnccl.so.2: ...", "library-not-found"),
        ("x: libnccl.so.2: 無法開啟共享目的檔", "library-not-found"),
        ("./run.sh: ligne 8: mpirun: commande introuvable", "command-not-found"),
        ("./run.sh: 行 8: mpirun\uff1a未找到命令", "command-not-found"),
    ],
)
def test_messages_of_the_c_library_are_known_in_other_languages(said: str, name: str, tmp_path: Path) -> None:
    # The second line has the first one's shape: it must be told in English as well, and shown as it stands.
    line = "n0:1:2 [0] misc/socket.cc:4 NCCL WARN "
    found = loud(f"{line}{said}\n{line.replace('4', '7')}{said}\n", tmp_path)
    assert [each.name for each in found] == [name]
    assert [said in each.fact for each in found[0].evidence] == [True, True]


PEERS = (
    "terminate called after throwing an instance of 'c10::DistBackendError'\n",
    "n9:4411:4500 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n8<41733>\n",
    "slurmstepd: error: *** STEP 77.0 ON n9 CANCELLED AT 2026-01-21T11:02:11 ***\n",
    "E0214 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 4 (pid: 1044)\n",
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "cuda-call-failed"),
        ("[rank2]: AssertionError", "python-exception"),
        ("[rank2]: app.errors.BadSampleError: sample 881 has no frames", "python-exception"),
        ("Call to ibv_modify_qp failed with error Connection timed out", "ib-connect-timeout"),
        ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off.", "gpu-off-bus"),
    ],
)
@pytest.mark.parametrize("head_cut", [False, True])
def test_what_peers_and_launchers_say_of_an_end_stands_behind_its_cause(
    head_cut: bool, line: str, name: str, tmp_path: Path
) -> None:
    rest = "".join(PEERS)
    assert loud((rest + line if head_cut else line + "\n" + rest) + "\n", tmp_path)[0].name == name


def test_an_exception_thrown_beside_a_timeout_is_the_watchdogs_own(tmp_path: Path) -> None:
    text = "[Rank 4] Watchdog caught collective operation timeout\n" + PEERS[0]
    assert [each.name for each in loud(text, tmp_path)] == ["watchdog-timeout"]


WAITS = (
    "[rank3]:[E ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
)
WAITS += "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
THROWN = "[rank7]: RuntimeError: rank 7, iteration 12: the moon was in the wrong phase for this loss\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (THROWN + WAITS, ["python-exception", "watchdog-timeout"]),
        # What comes after may be of the end, and what is only said is no end.
        (WAITS + THROWN, ["watchdog-timeout"]),
        (THROWN.replace("RuntimeError:", "WARN") + WAITS, ["watchdog-timeout"]),
        (THROWN + "step 13 loss 2.0\n" + WAITS, ["watchdog-timeout"]),
    ],
    ids=["before", "after", "a warning", "the job went on"],
)
def test_what_ended_a_program_before_others_waited_is_the_cause(text: str, names: list[str], tmp_path: Path) -> None:
    assert [each.name for each in loud(text, tmp_path)] == names


def test_an_end_before_others_gave_up_waiting_for_rank_0_is_the_cause(tmp_path: Path) -> None:
    lines = [
        "[rank0]: KeyError: 'hidden_size'\n",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/8 clients joined.\n",
    ]
    assert [each.name for each in loud("".join(lines), tmp_path)] == ["python-exception"]
    assert loud("".join(lines[::-1]), tmp_path)[0].name == "rendezvous-timeout"


def test_a_warning_of_nccl_stands_before_the_error_that_repeats_it(tmp_path: Path) -> None:
    said = "n0:1:2 [0] init.cc:7 NCCL WARN The moon is in the wrong phase\n"
    found = loud(said + "RuntimeError: NCCL error: unhandled system error\n", tmp_path)
    assert [(each.name, each.severity) for each in found] == [("nccl-warnings", Severity.ERROR)]


@pytest.mark.parametrize(("begun", "names"), [(1, ["init-incomplete", "dns"]), (2, ["init-incomplete"])])
def test_what_all_ranks_came_through_is_no_fault(begun: int, names: list[str], tmp_path: Path) -> None:
    comm = "ncclCommInitRank comm 0x{0} rank {0} nranks 2 cudaDev {0} nvmlDev {0} busId 1000 commId 0xa - Init START\n"
    text = "socket.cpp:697] [c10d] The IPv4 network addresses of (w-0, 3389) cannot be retrieved "
    text += "(gai error: -2 - Name or service not known).\n"
    text += "".join(f"n0:1{rank}:2 [{rank}] NCCL INFO {comm.format(rank)}" for rank in range(begun))
    assert sorted(each.name for each in loud(text, tmp_path)) == sorted(names)


def test_two_processes_of_one_rank_are_a_fault_and_one_of_each_is_none(tmp_path: Path) -> None:
    ranks = [f"initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in range(4)]
    assert [each.name for each in loud("".join(ranks), tmp_path) if each.name != STUCK] == []
    assert [each.name for each in loud("".join(ranks + ranks), tmp_path)] == ["ranks-alike"]


def test_versions_that_differ_are_the_cause_where_ranks_do_not_understand_each_other(tmp_path: Path) -> None:
    versions = "".join(f"n{n}:1:2 [0] NCCL INFO NCCL version 2.2{n}.5+cuda12.4\n" for n in range(2))
    truncated = "n0:1:2 [0] bootstrap.cc:7 NCCL WARN Message truncated : received 1024 bytes instead of 256\n"
    assert [each.name for each in loud(truncated, tmp_path)] == ["message-truncated"]
    assert loud(versions + truncated, tmp_path)[0].name == "library-versions"


def test_a_fault_that_no_signature_knows_is_never_called_health(tmp_path: Path) -> None:
    # The words of each log that a signature knows are made strange: what is left must not exit with 0.
    path = tmp_path / "job.log"
    for case in [each for each in CASES if number_of(each.name) % 60 == 0 and "COMPLETE" not in each.text]:
        strange = re.sub(r"(?<=[a-z])[aeiou](?=[a-z])", "q", case.text.replace("#", "%"))
        if loud(strange, tmp_path):
            continue  # numbers or names alone told enough
        path.write_text(strange)
        assert main(["doctor", str(path)]) == 3, case.name


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("SymbolErrorCounter:..............3", []),
        ("out_of_sequence: 17", []),
        ("SymbolErrorCounter:..............8812", ["roce-loss"]),
        ("link_downed: 14", ["roce-loss"]),
        ("symbol_error: 3 -> 9 within 60 s", ["roce-loss"]),
        ("out_of_sequence increased by 12", ["roce-loss"]),
        ("out_of_sequence: 17 (+4/s)", ["roce-loss"]),
    ],
)
def test_a_counter_is_a_fault_by_its_size_or_its_rate(line: str, names: list[str], tmp_path: Path) -> None:
    assert [each.name for each in loud(f"mlx5_0 port 1\n{line}\n", tmp_path)] == names


def test_a_port_that_made_a_transfer_fail_was_in_use_on_one_node_too(tmp_path: Path) -> None:
    begun = "".join(
        f"gpu-07:{4100 + rank}:{4200 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d{rank} rank {rank} nranks 2 "
        f"cudaDev {rank} nvmlDev {rank} busId {rank + 1}b000 commId 0x7a1b2c3d4e5f6071 - Init {word}\n"
        for word in ("START", "COMPLETE")
        for rank in range(2)
    )
    port = "gpu-07:4100:4310 [0] transport/net_ib.cc:92 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error"
    failed = (
        "gpu-07:4100:4320 [0] transport/net_ib.cc:1698 NCCL WARN NET/IB : Got completion from peer 10.0.3.9<41234> "
        "with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_1"
    )
    assert loud(f"{begun}{port}\n", tmp_path) == [], "a port that nothing uses"
    assert [each.name for each in loud(f"{begun}{port}\n{failed}\n", tmp_path)] == ["ib-port-down"]
