"""The checks of a gate as JUnit XML, which CI systems show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from busbw.base.text import clean
from busbw.gate.judge import Check, Result


def junit(name: str, checks: Sequence[Check]) -> bytes:
    """One suite, a test case per check; names are cleaned, since XML cannot hold control characters at all."""
    failed = sum(check.result is Result.FAILED for check in checks)
    suite = ET.Element(
        "testsuite", {"name": f"busbw gate {clean(name)}", "tests": str(len(checks)), "failures": str(failed)}
    )
    for check in checks:
        case = ET.SubElement(suite, "testcase", {"classname": "busbw.gate", "name": _legal(check.name)})
        detail = _legal(check.detail)
        if check.result is Result.FAILED:
            ET.SubElement(case, "failure", {"message": detail})
        else:
            ET.SubElement(case, "system-out").text = f"{check.result.value}: {detail}"
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _legal(text: str) -> str:
    return "".join(c if c not in "\ufffe\uffff" else "\ufffd" for c in clean(text))
