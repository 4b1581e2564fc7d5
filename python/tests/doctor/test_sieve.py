"""The first look at a log: what it leaves out says nothing new, numbers are the file's, JSON logs are opened."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.effort import EFFORT
from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.lines.scan import Scanning, scan
from busbw.doctor.lines.sieve import MAX_LINE, Sieve, is_json_log, lines_in, numbered
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.read_logs import read_logs
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.reading.tables import BLOCK_BYTES, holding_tables
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log import read_log, read_numbered

from .corpus import healthy
from .corpus.load import cases

ALL = tuple(SIGNATURES.values())
FAULT = "n0:1:2 [0] misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41021> failed : {}"


def loud(data: bytes, folder: Path) -> list[Finding]:
    path = folder / "job.log"
    path.write_bytes(data)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [each for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"10%\r20%\rend", [b"10%", b"20%", b"end"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"", []),
    ],
)
def test_lines_end_where_editors_end_them(data: bytes, lines: list[bytes]) -> None:
    assert list(lines_in(io.BytesIO(data))) == lines
    assert list(lines_in(_Slow(data))) == lines


class _Slow(io.BytesIO):
    """Gives a byte at a time."""

    def read(self, _most: int | None = -1, /) -> bytes:
        return super().read(1)


def test_a_file_without_ends_of_lines_is_cut() -> None:
    assert {len(each) for each in lines_in(io.BytesIO(b"x" * (3 * MAX_LINE)))} == {MAX_LINE}


def test_a_sieved_log_says_what_the_whole_says() -> None:
    EFFORT.lift()  # each of them is a call
    texts = [case.text for case in cases()] + [text for _, text in healthy.logs() if not text.startswith("{")]
    for text in (text * times for text in texts[::3] for times in (1, 3)):
        scanning = Scanning("a", ALL)
        sieve = Sieve(scanning)
        log = read_numbered(sieve.passed(enumerate(lines_in(io.BytesIO(text.encode())), 1)), "a")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
        whole = read_log(lines, "a")
        assert scanning.finished(0).hits.keys() == scan(lines, "a", ALL).hits.keys(), text[:400]
        # Said again, connections without a communicator's name are those that are known.
        if text in texts:
            assert (log.communicators, log.warnings) == (whole.communicators, whole.warnings), text[:400]
        assert log.versions == whole.versions


def test_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    dull = [f"step {each} waits" for each in range(5000)]
    (found,) = loud("\n".join([*dull, FAULT.format("Connection refused"), *dull]).encode(), tmp_path)
    assert found.name == "connection-refused" and found.evidence[0].line == 5001


def test_the_last_sign_of_life_counts_and_not_the_first() -> None:
    # The second shape holds words of which signatures may speak: it counts each time too.
    for shape in ("step {0} loss 2.{0}", "step {0} loss 2.{0} nothing hung, no rank lost"):
        scanning = Scanning("a", ALL)
        assert list(Sieve(scanning).passed(enumerate([shape.format(each).encode() for each in range(100)], 1))) == []
        assert scanning.alive == 100


def test_lines_around_an_ignored_traceback_are_seen() -> None:
    # What stands around it is seen, what it holds is not.
    step, ignored = "step {} loss 2.1", ["Exception ignored in: <function f>", "Traceback (most recent call last):"]
    lines = [step.format(1), *ignored, step.format(4), "OSError: [Errno 28] No space left on device", step.format(6)]
    scanning = Scanning("a", ALL)
    sieve = Sieve(scanning)
    assert list(sieve.passed(enumerate([each.encode() for each in lines], 1))) == []
    assert (scanning.alive, dict(scanning.hits), sieve.lines) == (6, {}, 6)
    more = Sieve(Scanning("a", ALL))
    assert list(more.passed(enumerate([b"step 7 loss 2.1"] * 1500, 1))) == []
    assert (more.scanning.alive, more.lines) == (1500, 1500)


def test_a_fault_of_a_shape_that_was_dull_once_is_seen(tmp_path: Path) -> None:
    text = "kernel: NVRM: Xid (PCI:0000:3b:00): 0, none\n" * 3 + "kernel: NVRM: Xid (PCI:0000:3b:00): 79, none\n"
    assert "gpu-off-bus" in [each.name for each in loud(text.encode(), tmp_path)]


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"%s\\n","stream":"stderr","time":"2026-11-22T10:00:00.1Z"}',
        '{"timestamp":"2026-11-22","level":"ERROR","fields":{"message":"first\\n%s\\nlast"},"target":"launcher"}',
        '{"insertId":"1","jsonPayload":{"message":"%s"},"severity":"ERROR"}',
        '{"stream":{"pod":"t-0"},"values":[["1700000000000000000","step 1"],["1700000000000000001","%s"]]}',
        '{"status":"success","data":{"result":[{"stream":{"pod":"t-0"},"values":[["1700000000000000001","%s"]]}]}}',
        '{"preview":false,"result":{"_raw":"%s"}}',
        '{"_index":"logs","_source":{"message":"%s"}}',
        '{"events":[{"timestamp":1,"message":"step 1"},{"timestamp":2,"message":"%s"}]}',
        '{ "MESSAGE" : "%s", "_HOSTNAME" : "n0" }',
    ],
)
def test_logs_of_objects_are_opened(line: str, tmp_path: Path) -> None:
    quiet = line % "all is well"
    text = f"{quiet}\n{quiet}\n{line % FAULT.format('Connection refused')}\n"
    (found,) = loud(text.encode(), tmp_path)
    assert found.name == "connection-refused" and found.evidence[0].line == 3
    assert found.evidence[0].fact.startswith("n0:1:2")


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"%s\\n","stream":"stderr","time":"2026-11-22T10:00:00.1Z"}',
        '{"insertId":"1","jsonPayload":{"message":"%s"},"severity":"ERROR","host":"n0","time":"10:00"}',
    ],
)
def test_a_setting_in_an_object_has_its_own_value_alone(line: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{line % 'n0:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring'}\n" * 3)
    facts = gather(*read_inputs(Inputs(files=(str(path),))))
    assert facts.settings["NCCL_ALGO"].value == "Ring"


@pytest.mark.parametrize("text", ['{"schema": 9, "log": 1}', '{"a": 1}', "[1]", "n0 {}", ""])
def test_other_objects_are_no_logs(text: str) -> None:
    assert not is_json_log(text.encode())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            '{"level":"error","ts":"2026-11-01","msg":"Xid event detected","xid":48,"pci":"0000:4e:00.0"}\n',
            "gpu-memory-error",
        ),
        (
            '{"level":"error","msg":"Reconciler error","error":"dial tcp 10.0.0.4:8443: connection refused"}\n',
            "connection-refused",
        ),
        ('{"EventId":"A1","EventType":"Preempt","ResourceType":"VirtualMachine"}\nstep 3\n', "job-cancelled"),
    ],
    ids=["a number apart", "the error apart", "an event above lines"],
)
def test_what_an_object_keeps_apart_from_its_sentence_is_read(text: str, name: str, tmp_path: Path) -> None:
    assert [each.name for each in loud(text.encode(), tmp_path)] == [name]


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ('{"level":"error","msg":"the flux is odd"}', True),
        ('{"level":"FATAL","fields":{"message":"the flux is odd"},"target":"flux"}', True),
        ('{"severity":"CRITICAL","jsonPayload":{"message":"the flux is odd"}}', True),
        ('{"log.level":"error","message":"the flux is odd"}', True),
        ('{"level":50,"msg":"the flux is odd"}', True),
        ('{"PRIORITY":"3","MESSAGE":"the flux is odd"}', True),
        ('{"log":"{\\"level\\":\\"error\\",\\"msg\\":\\"the flux is odd\\"}\\n","stream":"stderr"}', True),
        ('{"level":"info","msg":"the flux is odd"}', False),
        ('{"level":30,"msg":"the flux is odd"}', False),
        ('{"PRIORITY":"6","MESSAGE":"the flux is odd"}', False),
        ('{"errors":0,"msg":"the flux is odd"}', False),
    ],
)
def test_an_objects_level_is_kept(text: str, bad: bool, tmp_path: Path) -> None:
    assert [each.name for each in loud(text.encode(), tmp_path)] == (["unknown-error"] if bad else [])
    # Behind a long sentence, too.
    assert len(loud(text.replace("odd", "odd " * 200).encode(), tmp_path)) == bad


def test_a_broken_object_stays_a_line() -> None:
    lines = [b'{"log":"a\\nb"}', b'{"log": 3}', b'{"log":"cut', b"plain"]
    assert [each for _, each in numbered(lines)] == [b"a", b"b", *lines[1:]]


def test_a_record_that_is_cut_off_is_still_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"schema": 1, "kind": "r')
    assert main(["doctor", str(path)]) == 2
    assert "cut off" in capsys.readouterr().err


RAS = """#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 640
  Rank 12 has launched up to operation 641 -- GPU 4 managed by process 7 on node n3
"""


def test_what_ras_reports_is_a_finding(tmp_path: Path) -> None:
    (found,) = loud(RAS.encode(), tmp_path)
    assert found.name == "ras-mismatch" and "AllGather" in found.title


def test_the_meaning_of_an_xid_is_told(tmp_path: Path) -> None:
    (found,) = loud(b"NVRM: Xid (PCI:0000:3b:00): 158, pid=1, timeout\n", tmp_path)
    assert "timed out fatally" in found.title and "reset" in found.title


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("srun: error: The moon is in the wrong phase", "slurm-error"),
        ("RuntimeError: [../third_party/gloo/gloo/context.cc:12] The moon is in the wrong phase", "gloo-error"),
        ("torch.distributed.DistBackendError: The moon is in the wrong phase", "torch-distributed-error"),
        ("[n0:1] ORTE_ERROR_LOG: The moon is in the wrong phase in file x.c", "mpi-other"),
        ("ray.exceptions.MoonError: wrong phase", "ray-error"),
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: The moon is in the wrong phase", "xla-error"),
        ("Warning  FailedMoon  3s  kubelet  wrong phase", "kubernetes-event"),
    ],
)
def test_a_writer_whose_sentence_nobody_knows_is_named(line: str, name: str, tmp_path: Path) -> None:
    (found,) = loud(line.encode(), tmp_path)
    assert found.name == name and "phase" in found.title


def test_a_writer_is_the_last_resort(tmp_path: Path) -> None:
    text = "srun: error: Node failure on n12\nsrun: error: The moon is in the wrong phase\n"
    assert [each.name for each in loud(text.encode(), tmp_path)] == ["node-lost"]


def test_a_last_resort_stands_behind_others_of_its_stage(tmp_path: Path) -> None:
    text = "torch.distributed.DistBackendError: The moon is wrong\nRuntimeError: NCCL Error 5: invalid usage\n"
    assert [each.name for each in loud(text.encode(), tmp_path)] == ["nccl-error"]


@pytest.mark.parametrize("before", [0, BLOCK_BYTES - 2], ids=["at the start", "over the edge of a block"])
def test_a_file_with_a_table_is_looked_into(before: int, tmp_path: Path) -> None:
    (tmp_path / "with").write_bytes(b" " * before + b"busbw")
    (tmp_path / "without").write_bytes(b" " * before + b"busy")
    names = [str(tmp_path / each) for each in ("with", "without")]
    assert holding_tables(names) == names[:1]


def test_calls_alone_are_lines_of_nccl(tmp_path: Path) -> None:
    call = "n0:1:2 [0] NCCL INFO AllReduce: opCount 7 sendbuff 0x7f recvbuff 0x7f count 4 [nranks=2] stream 0x5\n"
    path = tmp_path / "job.log"
    path.write_text(call * 3)
    ((_, found),) = read_logs([TextFile(str(path), None)])
    assert found.kinds["nccl"] == 3


@pytest.mark.parametrize("first", ["", "\n"], ids=["at once", "behind an empty line"])
def test_lines_keep_their_numbers(first: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(first + "all is well\nNVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off.\n")
    ((_, found),) = read_logs([TextFile(str(path), None)])
    assert found.hits["gpu-off-bus"].lines[0][0] == 2 + len(first)


def test_a_warning_about_a_call_is_no_call(tmp_path: Path) -> None:
    line = FAULT.format("Connection refused") + " opCount 7 \n"
    assert [each.name for each in loud(line.encode(), tmp_path)] == ["connection-refused"]


INFO = "n0:1:2 [0] NCCL INFO "


def passed(*texts: str) -> tuple[list[str], Scanning]:
    """The lines that a reader of NCCL's messages sees, and what the scan knows in the end."""
    scanning = Scanning("", ALL)
    sieve = Sieve(scanning)
    return [line for _, line in sieve.passed(numbered(lines_in(io.BytesIO("\n".join(texts).encode()))))], scanning


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("proxyProgressAsync opId=0x7fa{0}bc op.type={0} done", False),
        ("register comm 0x55e{0}a0000 buffer 0x7f{0}c000 size {0}", False),
        ("Init timings - something: rank {0} nranks 4 total 0.1{0}", False),
        ("NCCL_IB_TIMEOUT set by environment to {0}", True),
        ("Channel 0{0}/02 : 0 1 2 3", True),
        ("comm 0x55e{0} rank {0} nranks 8 cudaDev 0 busId 1b000 - Destroy COMPLETE", True),
        ("group.cc:{0} -> 3", True),
        ("{0} coll channels, {0} nvls channels, 8 p2p channels", True),
    ],
)
def test_only_messages_of_no_consequence_are_passed_over(text: str, again: bool) -> None:
    lines = [INFO + text.format(each) for each in range(1, 6)]
    seen, scanning = passed(*lines)
    assert seen == (lines if again else lines[:1])
    assert scanning.kinds["nccl"] == 5


def test_the_end_of_a_communicator_is_seen_each_time() -> None:
    end = "comm 0x55e0 rank {} nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE"
    waits = "[W socket.cpp:{}] [c10d] The client socket has failed to connect to [n0]:29500"
    _, scanning = passed(INFO + end.format(0), waits.format(1), INFO + end.format(1))
    assert scanning.began == (0, "")


@pytest.mark.parametrize(
    ("pattern", "unless", "minds"),
    [
        (r"size \d{4}\b", (), True),
        (r"size 0x[0-9a-f]+ of 7", (), False),
        (r"size 77\b", (), True),
        (r"size (?!12)", (), True),
        (r"size [7-9]{2}\b", (), True),
        (r"size [^0-9]", (), False),
        (r"size \w+ failed", (), False),
        (r"size \w+ failed", ("size 12",), True),
        ("si\\u007ae failed", (), False),
    ],
)
def test_whether_digits_decide_what_a_signature_says(pattern: str, unless: tuple[str, ...], minds: bool) -> None:
    mine = replace(ALL[0], name="test", patterns=(pattern,), unless=unless)
    line = "size 12"
    assert mine.minds_digits(line, line) == minds


def test_digits_that_decide_are_looked_at_in_lines_of_one_shape() -> None:
    mine = replace(ALL[0], name="test", patterns=(r"retry count 7 of",), unless=())
    lines = [f"{INFO}retry count {each} of 7" for each in (1, 2, 7, 3)]
    assert [hit.count for hit in scan(lines, "", (mine,)).hits.values()] == [1]


@pytest.mark.parametrize("level", [50, 60])
def test_levels_in_numbers_of_other_loggers(level: int, tmp_path: Path) -> None:
    text = f'{{"level": {level}, "msg": "the flux is not where it was"}}\n'
    assert loud(text.encode(), tmp_path) and not loud(text.replace(str(level), "30").encode(), tmp_path)


def test_a_line_that_is_cut_goes_on_with_its_next_byte() -> None:
    data = bytes(range(65, 91)) * (MAX_LINE // 8)
    assert b"".join(lines_in(io.BytesIO(data))) == data


def test_two_texts_of_a_list_are_both_read(tmp_path: Path) -> None:
    fault = FAULT.format("Connection refused").replace('"', "")
    assert loud(f'{{"values": ["{fault}", "step 1"]}}\n'.encode(), tmp_path)


def test_a_connection_within_an_ignored_traceback_ends_nothing() -> None:
    ignored = "Exception ignored in: <function _A.__del__ at 0x7f>"
    via = INFO + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    seen, scanning = passed(ignored, "Traceback (most recent call last):", via, "KeyError: 'flux'", "x")
    assert via in seen and not scanning.ignored


@pytest.mark.parametrize(
    "about",
    [
        '"{\\"file\\":{\\"path\\":\\"/x.log\\"},\\"offset\\":8}"',
        '{"file":{"path":"/x.log"},"offset":8}',
        '{"level":"info"}',
    ],
)
def test_what_a_shipper_says_of_the_file_is_not_the_line(about: str) -> None:
    line = f'{{"@timestamp":"2026-06-05T11:00:00Z","log":{about},"message":"GPU has fallen off the bus"}}'.encode()
    assert next(said for _, said in numbered([line])).startswith(b"GPU has fallen off the bus")
