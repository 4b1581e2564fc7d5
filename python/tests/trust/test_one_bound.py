"""What a call may spend on foreign files is one sum for all of them; it says what it did not read."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from test_foreign_cost import FAULT, TABLE, different, written

from busbw.base.effort import ALLOWED, EFFORT, Effort
from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.doctor.facts import gather
from busbw.doctor.lines.scan import Scanning
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.read_logs import read_logs
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.verdict import Outcome, verdict
from busbw.importers import PER_LOADED_SWEEP, flat_json, import_folder, import_path, load
from busbw.importers.draft import ImportedSweep
from busbw.importers.lines import OVERDRAFT

LITTLE = ALLOWED / 50


def table(rows: int) -> str:
    sizes = [1 << at % 20 for at in range(rows)]
    return "\n".join(
        ["collective,size,ranks,time_us,algbw", *[f"all_reduce,{n},8,20.25,{n / 20.25 / 1e3:.6f}" for n in sizes]]
    ) + "\n"  # fmt: skip


def document(rows: int, **named: str) -> str:
    sizes = [1 << at % 20 for at in range(rows)]
    return json.dumps([{**named, "ranks": 8, "size": n, "time_us": 20.25, "algbw": n / 20.25 / 1e3} for n in sizes])


def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many lines of each log the doctor looks at."""
    lines, before = Counter[str](), Scanning.look

    def look(self: Scanning, raw: str, number: int, shape: bytes | None = None) -> bool:
        lines[self.source] += 1
        return before(self, raw, number, shape)

    monkeypatch.setattr(Scanning, "look", look)
    return lines


def test_a_part_of_the_effort_leaves_the_rest() -> None:
    effort = Effort(1000.0)
    with effort.part(0.25):
        assert effort.left == 250
        effort.spend(300)
        assert effort.is_spent
    assert effort.left == 700
    effort.lift()
    with effort.part(0.25):
        effort.spend(10**9)
    assert not effort.is_spent


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", table(4000)), ("a.json", document(4000, collective="all_reduce"))]
)
def test_a_table_that_costs_too_much_is_imported_in_part_and_says_so(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    path.write_text(text)
    EFFORT.left = LITTLE
    assert main(["import", str(path), "--output", str(out)]) == 1
    told = capsys.readouterr()
    assert "a part of the file alone" in told.out
    assert "no further, as reading costs too much" in told.err and "--whole" in told.err
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert 500 < sum(each["kind"] == "case" for each in kept) < 4000
    assert any("no further" in note for each in kept if each["kind"] == "run" for note in each["notes"])
    EFFORT.left = LITTLE
    assert main(["import", str(path), "--output", str(out), "--whole"]) == 0
    assert out.read_text().count('"kind":"case"') == 4000


def test_files_of_one_call_share_the_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abcd":
        (tmp_path / name).write_text(table(1000))
    EFFORT.left = LITTLE
    assert main(["import", "--dry-run", *[str(tmp_path / name) for name in "abcd"]]) == 1
    told = capsys.readouterr()
    assert "d was not read, as the files before it cost too much" in told.err
    assert main(["import", "--dry-run", "--whole", *[str(tmp_path / name) for name in "abcd"]]) == 0


def test_files_of_one_folder_share_the_bound(tmp_path: Path) -> None:
    for at in range(40):
        (tmp_path / f"{at}.csv").write_text(table(200))
    EFFORT.left = LITTLE
    found: list[ImportedSweep] = []
    report = import_folder(tmp_path, found.append)
    assert report.is_part and 0 < len(found) < 40
    assert "of its 40 files were not read" in report.skimmed_over


def test_members_of_a_packed_file_share_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "many.log.gz"
    one = gzip.compress("\n".join(different(300)).encode())
    path.write_bytes(one * 200 + gzip.compress(TABLE.encode()))
    EFFORT.left = LITTLE
    report = import_path(path, lambda _: None)
    assert report.is_part
    assert EFFORT.left > -LITTLE  # what is left of the file is not unpacked in vain


def test_what_a_packed_log_unpacks_to_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is like the one before, so that none is looked at: the bytes alone count."""
    path = tmp_path / "same.log.gz"
    path.write_bytes(gzip.compress(b"h:1:1 [0] NCCL INFO Channel 00/32 : 0 1 2 3\n" * 60_000) * 8)
    EFFORT.left = LITTLE * 10
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert scan.passed_over
    assert -LITTLE * 10 < EFFORT.left < LITTLE * 5


def test_logs_of_one_call_share_the_bound_and_each_end_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(10):
        (tmp_path / f"{at}.log").write_text("\n".join([*different(4000, seed=at), FAULT, "end"]) + "\n")
    looked = looked_at(monkeypatch)
    names = [str(tmp_path / f"{at}.log") for at in range(10)]
    EFFORT.left = ALLOWED / 20
    found = read_logs([TextFile(name, None) for name in names])
    assert all("connection-refused" in scan.hits and scan.passed_over for _, scan in found)
    assert sum(looked.values()) < 6_000
    assert min(looked.values()) > max(looked.values()) / 20
    looked.clear()
    EFFORT.left = ALLOWED / 20
    EFFORT.lift()
    assert not any(scan.passed_over for _, scan in read_logs([TextFile(name, None) for name in names]))
    assert sum(looked.values()) > 40_000


def test_further_files_are_told_and_never_healthy(tmp_path: Path) -> None:
    for at in range(30):
        (tmp_path / f"{at}.log").write_text(TABLE)
    EFFORT.left = 600.0
    names = tuple(str(tmp_path / f"{at}.log") for at in range(30))
    snapshot, records = read_inputs(Inputs(files=names, named=names))
    said = verdict(gather(snapshot, records), [])
    assert said.outcome is Outcome.UNKNOWN
    assert any("30 files were not read" in each for each in said.unread)


def test_tables_that_were_not_searched_for_are_told_and_never_healthy(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(TABLE * 3000)
    EFFORT.left = LITTLE
    names = (str(path),)
    snapshot, records = read_inputs(Inputs(files=names, named=names))
    assert len(records) < 900
    assert EFFORT.left > LITTLE / 3  # for the logs themselves
    said = verdict(gather(snapshot, records), [])
    assert said.outcome is Outcome.UNKNOWN
    assert any("no further" in each for each in said.unread)


def test_lines_of_a_passed_over_middle_are_counted(tmp_path: Path) -> None:
    noise = different(150_000)
    path = written(tmp_path, noise, [FAULT], different(100, seed=6))
    EFFORT.left = ALLOWED / 8
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert [line for line, _ in scan.hits["connection-refused"].lines] == [150_001]
    assert scan.lines == 150_101


def test_the_end_of_a_giant_log_is_read_without_its_middle(tmp_path: Path) -> None:
    path = written(tmp_path, different(60_000), [FAULT], ["end"])
    EFFORT.left = 500.0
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert "connection-refused" in scan.hits
    assert "were not counted" in scan.passed_over


def test_json_of_rows_without_a_collective_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, before = Counter[str](), flat_json.Runs.add
    monkeypatch.setattr(flat_json.Runs, "add", lambda *given: rows.update(read=1) or before(*given))
    path = tmp_path / "a.json"
    path.write_text(document(flat_json.MAX_UNREAD + 5000, label="x"))
    report = import_path(path, lambda _: None)
    assert rows["read"] == flat_json.MAX_UNREAD
    assert any(
        "objects in a row name no collective: the rest of the file was not read" in each for each in report.problems
    )


def test_who_loads_a_log_is_told_that_it_is_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table(4000))
    said: list[str] = []
    EFFORT.left = LITTLE
    (record,) = load(path, tell=said.append)
    assert len(record.cases) < 4000 and "no further" in said[0]
    assert any("no further" in note for note in record.run.notes)
    EFFORT.left = LITTLE
    main(["report", str(path)])
    assert "no further, as reading costs too much" in capsys.readouterr().err


def test_an_archive_of_empty_files_holds_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for at in range(200):
            member = tarfile.TarInfo(f"logs/{at}")
            archive.addfile(member)
    assert main(["doctor", str(path)]) == 2
    assert "is an archive without a log in it" in capsys.readouterr().err


def test_a_line_without_an_end_is_not_read_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"words " * 2_000_000)
    EFFORT.left = -OVERDRAFT + 20_000.0
    taken: list[int] = []
    report = import_path(path, lambda _: None, progress=taken.append)
    assert report.is_part
    assert max(taken) < 6_000_000


def test_a_document_that_costs_too_much_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(document(60_000, collective="all_reduce").encode()))
    EFFORT.left = LITTLE
    with pytest.raises(UserError, match="costs too much to be read as one document"):
        import_path(path, lambda _: None)


def test_sweeps_beyond_what_may_be_examined_are_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(TABLE * 30)
    EFFORT.left = PER_LOADED_SWEEP * 10.0
    said: list[str] = []
    assert 1 < len(load(path, tell=said.append)) < 10
    assert "no further" in said[0]
    assert "of the sweeps that were read are left out" in said[1]


def test_lines_with_words_of_faults_are_looked_through_up_to_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = looked_at(monkeypatch)
    path = written(tmp_path, different(12_000, ("error", "failed")))
    EFFORT.left = LITTLE * 3
    read_logs([TextFile(str(path), None)])
    assert looked[str(path)] < 4_000


def test_the_bytes_of_long_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "same.log.gz"
    path.write_bytes(gzip.compress((b"x" * 60_000 + b"\n") * 500, 1))
    EFFORT.left = LITTLE * 2
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert scan.passed_over
