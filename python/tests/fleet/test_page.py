"""The page of a fleet: every fault with sign and word, nothing of a stranger's text runs, and it fits a telephone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.page import page
from busbw.fleet.plan import next_round
from busbw.fleet.simulate import World, make_fabric, run
from busbw.fleet.verdict import Verdict

HOSTILE = "</td><script>document.title='hacked'</script>"
VERDICTS = [
    Verdict("broken", "node0003", "", 1.0, 0.0, HOSTILE),
    Verdict("spine", "", "rail1", 0.3, 0.01),
    Verdict("cable", "node0012", "rail1", 0.2, 0.01),
    Verdict("leaf", "pod01", "rail0", 0.1, 0.01, runner_up="uplink pod01"),
    Verdict("either", "link node0001 or link node0002", "rail0", 0.08, 0.01),
    Verdict("nic", "node0009", "nic0", 0.07, 0.01),
    Verdict("level", "all nodes", "rail", 0.05, 0.01),
]


def drawn() -> str:
    fabric, options, known = make_fabric(16, 8, 2), Options(), Knowledge()
    known.learn(run(World(fabric), next_round(fabric, known, options), 0))
    return page(fabric, known, VERDICTS, options)


def test_every_fault_stands_in_table_and_fabric() -> None:
    text = drawn()
    assert "<script" not in text
    table, fabric = text.split("<h2>The fabric</h2>")
    order = [table.index(word) for word in ("node0003", "spines", "node0012", "pod01", "link node0001", "all nodes")]
    assert order == sorted(order), "worst first"
    assert text.count('<rect class="broken"') == 1 + 3  # legend; inside and two rails
    assert text.count('<rect class="slow"') == 1 + 3  # legend; cable, leaf, NIC
    assert text.count('<rect class="unclear"') == 1 + 2
    assert "rail1 cable of node0012 slow by 20.0 %" in fabric
    assert "nic0 of node0009" in fabric
    assert "rail 1: a spine slow by 30.0 %" in fabric
    assert "NodeName=node0012" in text and "NodeName=node0001" not in text


def test_what_was_not_measured_is_not_drawn_as_good() -> None:
    text = page(Fabric(("a", "b")), Knowledge(), [], Options())
    assert '<rect class="good"' not in text.split('<div class="racks">')[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: the page is not opened")
    driver_program = shutil.which("chromedriver")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not (chromium and driver_program):
        pytest.skip("neither chromium nor its driver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_program))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def test_it_fits_wide_and_narrow_windows_and_follows_light_and_dark(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "fleet.html"
    file.write_text(drawn())
    grounds = set()
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        for width in (1280, 400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(file.as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert browser.title == "busbw fleet: 7 faults"
        grounds.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_nodes_that_share_something_slow_are_drawn_each() -> None:
    fabric, known = make_fabric(16, 8, 2), Knowledge()
    text = page(fabric, known, [Verdict("shared", "node[0002-0005]", "rail1", 0.2, 0.01)], Options())
    assert text.split('<div class="racks">')[1].count('<rect class="unclear"') == 4
    assert "NodeName=node0002" not in text
