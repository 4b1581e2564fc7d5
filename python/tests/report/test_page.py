"""The page in a real browser: opens offline, answers the pointer, switches runs off, runs nothing of a record."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main
from busbw.records import Case, Library, Record, Run, Tool, save_records

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: the page is not opened")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="neither chromium nor its driver is installed")

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"


def record(name: str, speed: float, library: str) -> Record:
    cases = [
        Case(name, 0, "all_reduce", 1 << power, placement, "measured", 100.0 / speed, 1.0, speed * power, type="float",
             op="sum", ranks=2, batches_us=((90.0, 95.0, 100.0, 105.0, 110.0),),
             extra={"expected_busbw_GBps": 99.0} if speed == 1 else {})
        for power in range(10, 21)
        for placement in ("out_of_place", "in_place")
    ]  # fmt: skip
    return Record(
        Run(name, None, Tool("busbw"), Library(library), environment={"NCCL_X": HOSTILE + name}), tuple(cases)
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    save_records([record("a", 1.0, "slow")], folder / "a.jsonl")
    save_records([record("b", 2.0, HOSTILE)], folder / "b.jsonl")
    output = folder / "report.html"
    words = ["report", str(folder / "a.jsonl"), str(folder / "b.jsonl"), "-o", str(output), "--title", HOSTILE]
    assert main(words) == 0
    return output


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1400"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    browser.get(page.as_uri())
    wait_for(lambda: browser.execute_script("return document.querySelectorAll('.curve').length") == 8)
    return browser


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the page did not get there in a minute"
        time.sleep(0.05)


def hover(browser: Any, figure: str, fraction: float) -> list[list[str]]:
    """Moves the pointer over a picture and reads the rows of values, in the order shown."""
    picture = browser.find_element("css selector", f"#{figure} svg")
    across = int((fraction - 0.5) * picture.size["width"])
    webdriver.ActionChains(browser).move_to_element_with_offset(picture, across, 0).perform()
    rows = browser.find_elements("css selector", f"#{figure} .values tr")
    return [[cell.text for cell in row.find_elements("css selector", "td")] for row in rows]


def test_hovering_shows_the_values_of_all_runs_at_the_nearest_size(opened: Any) -> None:
    rows = hover(opened, "busbw", 0.11)
    assert opened.find_element("css selector", "#busbw .values div").text == "1 KiB, GB/s"
    # The hostile name is text: 2 x 10 for the fast run, 10 for the slow one, fastest first.
    assert [row[1] for row in rows] == ["20.00", "20.00", "10.00", "10.00"]
    assert rows[0][0].startswith("</script>") and rows[2][0] == "slow, out of place"
    assert rows[2][2] == "9.26 to 10.87 expected 99.00"
    assert opened.find_element("css selector", "#latency .values div").text == "1 KiB, us"


def test_switching_a_run_off_removes_its_curves_and_values(opened: Any) -> None:
    opened.find_element("css selector", "#runs input[data-run='1']").click()
    assert opened.execute_script("return document.querySelectorAll('.curve').length") == 4
    assert [row[1] for row in hover(opened, "busbw", 0.11)] == ["10.00", "10.00"]
    opened.find_element("css selector", "#placements input[data-placement='in_place']").click()
    assert [row[0] for row in hover(opened, "latency", 0.11)] == ["slow"]
    opened.find_element("css selector", "#runs input[data-run='0']").click()
    assert opened.find_element("css selector", "#busbw .empty").is_displayed()


def test_the_arrow_keys_walk_over_the_sizes(opened: Any) -> None:
    picture = opened.find_element("css selector", "#busbw svg")
    opened.execute_script("arguments[0].focus()", picture)
    picture.send_keys(webdriver.Keys.ARROW_RIGHT, webdriver.Keys.ARROW_RIGHT)
    assert opened.find_element("css selector", "#busbw .values div").text == "2 KiB, GB/s"


def test_nothing_of_a_record_runs_and_nothing_is_requested(opened: Any, page: Path) -> None:
    hover(opened, "busbw", 0.5)
    assert opened.execute_script("return window.hacked === undefined && document.images.length === 0")
    assert HOSTILE not in page.read_text()
    assert opened.title == HOSTILE
    requests = [entry["message"] for entry in opened.get_log("performance") if "requestWillBeSent" in entry["message"]]
    assert all('"url":"http' not in message for message in requests)
    assert opened.get_log("browser") == []


def test_the_button_changes_between_light_and_dark(opened: Any) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = opened.execute_script(ground)
    opened.find_element("id", "theme").click()
    assert opened.execute_script(ground) != before
    opened.find_element("id", "theme").click()
    assert opened.execute_script(ground) == before


def test_a_narrow_window_does_not_scroll_sideways(opened: Any) -> None:
    metrics = {"width": 360, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        wait_for(lambda: opened.execute_script("return document.documentElement.scrollWidth") <= 360)
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
