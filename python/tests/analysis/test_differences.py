"""What differs between runs besides their times."""

from __future__ import annotations

from busbw.analysis.differences import find_differences
from busbw.records import Record, Run, Tool


def test_the_hosts_driver_and_kernel_are_compared() -> None:
    runs = [
        Record(Run(name, None, Tool("busbw"), None, system={"driver": driver, "kernel": kernel}), (), None)
        for name, driver, kernel in (("a", "570", "6.8"), ("b", "580", "6.11"))
    ]
    found = {each.what: each.values for each in find_differences(runs)}
    assert found == {"driver": ("570", "580"), "kernel": ("6.8", "6.11")}
