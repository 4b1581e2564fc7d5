"""XML from anywhere: what could cost memory or time is refused in one sentence with its line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.machine.nccl.safe_xml import MAX_BYTES, MAX_DEPTH, parse

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY a "0123456789"><!ENTITY b "&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<system version="1">&c;</system>"""
CYCLE = b'<!DOCTYPE a [<!ENTITY a "&b;"><!ENTITY b "&a;">]><system version="&a;"/>'
EXTERNAL = b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><system/>'


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("bomb", BOMB, "2: a document type is not read"),
        ("cycle", CYCLE, "1: a document type is not read"),
        ("external", EXTERNAL, "1: a document type is not read"),
        ("deep", b"<a>" * 5000, f"nested deeper than {MAX_DEPTH}"),
        ("many", b"<a>" + b"<b/>" * 70000 + b"</a>", "more than 65536 elements"),
        ("wide", b'<a x="' + b"y" * 5000 + b'"/>', "attributes or one of over"),
        ("cut off", b"<a><b>", "not well-formed"),
        ("unknown entity", b"<a>&nothing;</a>", "undefined entity"),
        ("empty", b"", "no element found"),
        ("binary", b"\x00\x01\x02", "not well-formed"),
        ("encoding", b'<?xml version="1.0" encoding="none-such"?><a/>', "unknown encoding"),
        ("huge", b"<a>" + b" " * MAX_BYTES, "is not read"),
    ],
)
def test_what_a_topology_has_no_need_of_is_refused(name: str, data: bytes, says: str) -> None:
    started = time.process_time()
    with pytest.raises(UserError, match=r"x\.xml") as caught:
        parse(data, "x.xml")
    assert says in str(caught.value), name
    assert "\n" not in str(caught.value)
    assert time.process_time() - started < 5


def test_a_document_type_without_declarations_passes_where_nvidia_smi_writes_one() -> None:
    data = b'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log/>'
    assert parse(data, "x", doctype=True).tag == "nvidia_smi_log"
    with pytest.raises(UserError, match="could declare entities"):
        parse(BOMB, "x", doctype=True)


def test_elements_know_their_line_text_and_children() -> None:
    root = parse(b"<a>\n <b k='v'>\n  text </b>\n <b/>\n</a>", "x")
    assert [(each.tag, each.line) for each in root.walk()] == [("a", 1), ("b", 2), ("b", 4)]
    found = root.find("b")
    assert found is not None and found.text == "text" and found.attributes == {"k": "v"}
    assert root.find("b/c") is None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_garbage_is_a_sentence_or_a_tree(data: bytes) -> None:
    try:
        assert parse(data, "x").tag
    except UserError as problem:
        assert str(problem).startswith("x")
