"""What files nccl.conf set is part of a record: whoever reads it sees which variables acted, and compare names them."""

from __future__ import annotations

import io
import json
from pathlib import Path

from busbw.analysis.differences import find_differences
from busbw.records import ConfSetting, Record, Run, Tool, parse_records, to_json


def record(*conf: ConfSetting, system: dict[str, str] | None = None, **environment: str) -> Record:
    return Record(
        Run("a", None, Tool("busbw"), None, environment=environment, conf=conf, system=system or {}), (), None
    )


def differences(*records: Record) -> dict[str, tuple[str, ...]]:
    return {each.what: each.values for each in find_differences(records)}


def setting(value: str, file: str = "conf/a.conf", *, in_force: bool = True, name: str = "NCCL_PROTO") -> ConfSetting:
    return ConfSetting(name, value, file, 1, in_force)


def test_a_record_with_a_conf_is_read_as_it_was_written_and_without_secrets(tmp_path: Path) -> None:
    run = record(setting("LL"), setting("me:otter-47Gate@host", name="NCCL_NETRC")).run
    line = json.loads(to_json(run))
    assert line["conf"][0] == {
        "name": "NCCL_PROTO", "value": "LL", "file": "conf/a.conf", "line": 1, "in_force": True,
    }  # fmt: skip
    line["conf"][1]["name"] = "NCCL_API_KEY"
    [read] = parse_records(io.BytesIO(json.dumps(line).encode() + b"\n"), "x")
    assert read.run.conf[0] == run.conf[0] and "otter" not in read.run.conf[1].value


def test_a_variable_of_a_conf_is_compared_with_both_values_and_its_file() -> None:
    hashes = {"file of NCCL_CONF_FILE": "1"}, {"file of NCCL_CONF_FILE": "2"}
    found = differences(record(setting("LL"), system=hashes[0]), record(setting("Simple"), system=hashes[1]))
    assert found == {"NCCL_PROTO": ("LL (conf/a.conf)", "Simple (conf/a.conf)")}
    # A comment, or what is not kept: then the digests are all that tells.
    assert differences(record(setting("LL"), system=hashes[0]), record(setting("LL"), system=hashes[1])) == {
        "file of NCCL_CONF_FILE": ("1", "2")
    }


def test_what_acted_is_compared_by_whichever_way_it_was_set() -> None:
    by_conf, exported = record(setting("LL")), record(NCCL_PROTO="LL")
    assert differences(by_conf, exported) == {}
    assert differences(by_conf, record()) == {"NCCL_PROTO": ("LL (conf/a.conf)", "-")}
    # The environment hides the file's value; what the library has set from it stands in the environment too.
    hidden = record(setting("LL", in_force=False), NCCL_PROTO="Simple")
    taken = record(setting("LL"), NCCL_PROTO="LL")
    assert differences(hidden, taken) == {"NCCL_PROTO": ("Simple", "LL (conf/a.conf)")}


def test_an_empty_value_is_not_one_that_is_not_set() -> None:
    assert differences(record(NCCL_ALGO=""), record()) == {"NCCL_ALGO": ("(empty)", "-")}
