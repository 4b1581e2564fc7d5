"""Records read, write and refuse as the schema says."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.records import (
    Case,
    Collective,
    End,
    Record,
    Run,
    Tool,
    bandwidth,
    content_run_id,
    encode,
    new_run_id,
    parse_records,
    read_record,
    read_records,
    record_lines,
    save_records,
    to_json,
)
from busbw.records import decode as decoding

SCHEMA_DIR = Path(__file__).parents[3] / "schema"
EXAMPLE = SCHEMA_DIR / "examples" / "all_reduce-v1.jsonl"
EXAMPLES = sorted((SCHEMA_DIR / "examples").glob("*.jsonl"))


def parsed(text: str) -> list[Record]:
    return parse_records(io.BytesIO(text.encode()), "file.jsonl")


def small_record(run: str = "r1") -> Record:
    return Record(
        Run(run=run, started=None, tool=Tool("busbw", "0.1.0"), library=None),
        (Case(run, 0, "all_reduce", 8, "in_place", "measured", 0.5, 0.016, 0.016),),
        End(run, "completed", 1),
    )


def text_of(record: Record) -> str:
    return "".join(record_lines(record))


def test_the_example_of_version_1_reads_as_written() -> None:
    record = read_record(EXAMPLE)
    assert record.run.library is not None and record.run.library.version_code == 22809
    assert [case.outcome for case in record.cases] == ["measured", "skipped"]
    assert record.end is not None and record.end.cases == 2
    assert record.notes == ()


def test_a_case_names_its_algorithm_where_the_library_does() -> None:
    cases = read_record(SCHEMA_DIR / "examples" / "algorithm-v1.jsonl").cases
    assert [case.algorithm for case in cases] == ["one_shot/ll@1x128", None]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_survives_a_round_trip(example: Path) -> None:
    record = read_record(example)
    assert parsed(text_of(record)) == [record]
    for line, original in zip(record_lines(record), example.read_text().splitlines(), strict=True):
        assert _same(json.loads(line), json.loads(original))


def _same(written: Any, expected: Any) -> bool:
    """Equal but for fields at their default, which the writer leaves out."""
    if isinstance(expected, dict):
        return all(
            _same(written[key], value) if key in written else value in (None, [], {}) for key, value in expected.items()
        ) and not (written.keys() - expected.keys())
    if isinstance(expected, list):
        return len(written) == len(expected) and all(_same(*pair) for pair in zip(written, expected, strict=True))
    return bool(written == expected)


def test_what_is_written_satisfies_the_json_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMA_DIR / "record.schema.json").read_text()))
    for record in (*map(read_record, EXAMPLES), small_record()):
        for line in record_lines(record):
            validator.validate(json.loads(line))


def test_every_field_of_the_schema_has_a_check_and_the_reverse() -> None:
    definitions = json.loads((SCHEMA_DIR / "record.schema.json").read_text())["$defs"]
    for kind, fields in (("run", decoding._RUN), ("case", decoding._CASE), ("end", decoding._END)):
        assert set(fields.checks) == set(definitions[kind]["properties"]) - {"schema", "kind"}
        assert fields.required == set(definitions[kind]["required"]) - {"schema", "kind"}


def test_the_collectives_are_those_of_the_schema() -> None:
    definitions = json.loads((SCHEMA_DIR / "record.schema.json").read_text())["$defs"]
    assert list(get_args(Collective)) == definitions["case"]["properties"]["collective"]["enum"]


def test_unknown_optional_fields_are_kept() -> None:
    lines = [encode(small_record().run), encode(small_record().cases[0])]
    lines[1]["colour"] = "blue"
    record = parsed("".join(json.dumps(line) + "\n" for line in lines))[0]
    assert record.cases[0].extra == {"colour": "blue"}
    assert json.loads(to_json(record.cases[0]))["colour"] == "blue"


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        small_record().cases[0].bytes = 9  # type: ignore[misc]


def test_a_last_line_cut_at_any_byte_is_left_out_with_one_sentence() -> None:
    lines = text_of(replace(small_record(), end=None)).encode().splitlines(keepends=True)
    assert len(lines) == 2
    for length in range(1, len(lines[1]) - 1):
        (record,) = parse_records(io.BytesIO(lines[0] + lines[1][:length]), "name")
        assert record.cases == ()
        assert record.notes.count("name:2: the last line is cut off and was left out") == 1
    (record,) = parse_records(io.BytesIO(b"".join(lines)[:-1]), "name")
    assert len(record.cases) == 1
    assert "cut off and was left out" not in " ".join(record.notes)


@pytest.mark.parametrize("length", [20, 100])
def test_a_record_cut_in_its_first_line_says_that_it_holds_nothing(length: int) -> None:
    with pytest.raises(UserError, match=r"^name:1: the last line is cut off and nothing stands before it$"):
        parse_records(io.BytesIO(text_of(small_record()).encode()[:length]), "name")


def test_a_record_without_end_says_so_and_its_cases_stand() -> None:
    record = parsed(text_of(replace(small_record(), end=None)))[0]
    assert record.end is None and len(record.cases) == 1
    assert "no end line" in record.notes[0]


def test_several_records_in_one_file_keep_their_order() -> None:
    records = [small_record("b"), small_record("a")]
    assert parsed("".join(map(text_of, records))) == records


def test_read_record_refuses_a_file_of_several(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    save_records([small_record("a"), small_record("b")], path)
    assert len(read_records(path)) == 2
    with pytest.raises(UserError, match="holds 2 runs"):
        read_record(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no busbw record"),
        ("\n\n", "holds no busbw record"),
        ("hello\n", "file.jsonl:1: not JSON"),
        ("\x00\xff\n", "file.jsonl:1: not JSON"),
        ("[1]\n", "not a JSON object"),
        ("{}\n", "this is no busbw record"),
        ('{"schema":2,"kind":"run"}\n', "version 2 is newer than this busbw reads"),
        ('{"schema":0,"kind":"run"}\n', "no schema version"),
        ('{"schema":true,"kind":"run"}\n', "no schema version"),
        ('{"schema":1,"kind":"walk"}\n', "kind is 'walk'"),
        ('{"schema":1,"kind":"run"}\n', "missing"),
        ('{"schema":1,"kind":"end","run":"x","outcome":"completed","cases":0}\n', "before its run line"),
        ('{"schema":1,"kind":"end","run":"x\\ny","outcome":"completed","cases":0}\n', "run x\ufffdy comes before"),
        ('{"a":' * 100_000 + "\n", "nested too deeply|not JSON"),
        (
            '{"schema":1,"kind":"end","run":"x","outcome":"completed","cases":' + "9" * 5000 + "}\n",
            "not JSON|before its run",
        ),
        ('{"schema":1,"kind":"end","run":"x","outcome":"completed","cases":NaN}\n', "NaN is not JSON"),
    ],
)
def test_what_is_no_record_ends_in_a_sentence_with_file_and_line(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parsed(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bytes", -1),
        ("bytes", 1.5),
        ("bytes", True),
        ("time_us", "3"),
        ("collective", "gossip"),
        ("placement", "beside"),
        ("batches_us", [1.0]),
        ("range", {"busbw_GBps": [1]}),
        ("source", {"file": 1}),
        ("time_us", 10**400),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(field: str, value: Any) -> None:
    line = encode(small_record().cases[0])
    line[field] = value
    text = to_json(small_record().run) + "\n" + json.dumps(line) + "\n"
    with pytest.raises(UserError, match=f"file.jsonl:2: {field}: "):
        parsed(text)


def test_a_number_beyond_floating_point_is_refused() -> None:
    line = to_json(small_record().cases[0]).replace('"time_us":0.5', '"time_us":1e999')
    with pytest.raises(UserError, match="not finite"):
        parsed(to_json(small_record().run) + "\n" + line + "\n")


@pytest.mark.parametrize("value", ["1e999", "[0, -1e999]", '{"deep": [{"er": 1e999}]}'])
def test_a_number_beyond_floating_point_is_refused_in_an_object_of_any_shape(value: str) -> None:
    run = json.loads(to_json(small_record().run))
    run["options"] = {"odd": "@"}
    with pytest.raises(UserError, match="not finite"):
        parsed(json.dumps(run).replace('"@"', value) + "\n")


def test_an_older_version_steps_up_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "SCHEMA", 3)
    monkeypatch.setattr(
        decoding,
        "UPGRADES",
        {
            1: lambda raw: {**raw, "schema": 2, "cases": raw["amount"]},
            2: lambda raw: {**raw, "schema": 3, "cases": raw["cases"] + 1},
        },
    )
    end = decoding.decode({"schema": 1, "kind": "end", "run": "x", "outcome": "completed", "amount": 4})
    assert isinstance(end, End) and end.cases == 5


def test_a_missing_file_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl cannot be read: No such file"):
        read_records("nowhere.jsonl")


def test_lines_after_the_end_are_refused() -> None:
    text = text_of(small_record())
    with pytest.raises(UserError, match="after its end line"):
        parsed(text + to_json(small_record().cases[0]) + "\n")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_record_or_a_sentence(data: bytes) -> None:
    with suppress(UserError):
        parse_records(io.BytesIO(data), "f")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(decoding._CASE.checks | decoding._RUN.checks)), json_values)
def test_any_value_in_any_field_is_a_record_or_a_sentence(field: str, value: Any) -> None:
    lines = [encode(small_record().run), encode(small_record().cases[0])]
    for line in lines:
        line[field] = value
    with suppress(UserError):
        parsed("".join(json.dumps(line) + "\n" for line in lines))


times = st.just(0.0) | st.floats(min_value=1e-30, max_value=1e12)


@given(
    st.builds(
        Case,
        run=st.just("r"),
        case=st.integers(0, 10**9),
        collective=st.sampled_from(get_args(Collective)),
        bytes=st.integers(0, 2**63),
        placement=st.sampled_from(["in_place", "out_of_place", None]),
        outcome=st.just("measured"),
        time_us=st.none() | times,
        algbw_GBps=st.none() | times,
        busbw_GBps=st.none() | times,
        type=st.none() | st.text(),
        reason=st.none() | st.text(),
        wrong=st.none() | times,
        batches_us=st.lists(st.lists(times, max_size=3).map(tuple), max_size=3).map(tuple),
    )
)
def test_every_case_survives_a_round_trip(case: Case) -> None:
    record = Record(small_record("r").run, (case,), End("r", "completed", 1))
    assert parsed(text_of(record)) == [record]


def test_identifiers_are_unique_for_new_runs_and_stable_for_content() -> None:
    assert new_run_id("all_reduce_perf") != new_run_id("all_reduce_perf")
    assert content_run_id("a/b c.log", b"x") == content_run_id("a/b c.log", b"x") != content_run_id("a/b c.log", b"y")
    assert "/" not in content_run_id("a/b c.log", b"x")


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 4, 1.5),
        ("all_reduce", 1, 0.0),
        ("all_gather", 8, 0.875),
        ("alltoall", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("sendrecv", 2, 1.0),
        ("hypercube", 4, 1.0),
        ("barrier", 4, None),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(collective: Collective, ranks: int, factor: float | None) -> None:
    assert bandwidth.bus_factor(collective, ranks) == factor


def test_bandwidths_use_gigabytes_of_1e9() -> None:
    assert bandwidth.algbw_GBps("all_reduce", 10**9, 1e6, 4) == pytest.approx(1.0)
    assert bandwidth.busbw_GBps("all_reduce", 10**9, 1e6, 4) == pytest.approx(1.5)
    assert bandwidth.algbw_GBps("hypercube", 8 * 10**9, 1e6, 8) == pytest.approx(7.0)
    assert bandwidth.busbw_GBps("barrier", 0, 5.0, 4) is None
    assert bandwidth.algbw_GBps("all_reduce", 8, 0.0, 4) is None
    assert bandwidth.GBps_from_Gbps(1329.4242) == pytest.approx(166.178025)
    assert bandwidth.Gbps_from_GBps(1.0) == 8.0
