"""The page in a real browser: opens offline, answers the pointer, switches runs off, runs nothing of a record."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
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
    wait_for(lambda: curves(browser) == 10)
    return browser


def curves(browser: Any) -> int:
    """Two columns in two placements as bandwidth and latency, and one ratio in each placement."""
    return int(browser.execute_script("return document.querySelectorAll('.curve').length"))


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
    assert curves(opened) == 4, "the ratio is of the other run, and goes with it"
    assert [row[1] for row in hover(opened, "busbw", 0.11)] == ["10.00", "10.00"]
    opened.find_element("css selector", "#placements input[data-placement='in place']").click()
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


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One sweep, two columns of 31 sizes, ten of one size, ranges without a time, and names too long for a line."""
    folder = tmp_path_factory.mktemp("pages")
    sources = {
        "one": ["catalogue:ndv4-1node"],
        "two": ["catalogue:nc48v4"],
        "ten": ["catalogue:ndmv4-2x8"],
        "ranges": ["catalogue:torch-bandwidth", "--columns", "cluster"],
        "long": ["catalogue:nc48v4", "--names", "the cluster of the second building " * 3 + "," + "b" * 90],
    }
    found = []
    for name, words in sources.items():
        found.append(folder / f"{name}.html")
        assert main(["report", *words, "--output", str(found[-1])]) == 0
    return found


WRONG_LABELS = """
const wrong = [];
const boxes = (svg, kind) =>
  [...svg.querySelectorAll(kind)].map((text) => [text.textContent, text.getBoundingClientRect()]);
for (const svg of document.querySelectorAll('svg.plot')) {
  const frame = svg.getBoundingClientRect();
  for (const kind of ['.tick-x', '.tick-y']) {
    const found = boxes(svg, kind);
    for (const [text, box] of found) {
      if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5
          || box.bottom > frame.bottom + 0.5) wrong.push(`${text} is cut`);
    }
    found.forEach(([text, box], i) => found.slice(i + 1).forEach(([other, there]) => {
      if (box.left < there.right && there.left < box.right && box.top < there.bottom && there.top < box.bottom) {
        wrong.push(`${text} covers ${other}`);
      }
    }));
    if (found.length < 2 && kind === '.tick-y') wrong.push('an axis with less than two numbers');
  }
}
for (const label of document.querySelectorAll('#controls label, figcaption span, h1, .verdict')) {
  const block = getComputedStyle(label).display !== 'inline';
  if (block && label.scrollWidth > label.clientWidth + 1) wrong.push(`${label.textContent} is cut`);
}
return [wrong, document.documentElement.scrollWidth, document.querySelectorAll('svg.plot').length];
"""


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (400, "screen"), (718, "print")])
def test_no_label_is_cut_and_no_tick_covers_another(browser: Any, pages: list[Path], width: int, media: str) -> None:
    """718 pixels: a page of A4 with margins of a centimetre."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    try:
        for page in pages:
            browser.get(page.as_uri())
            wait_for(lambda: browser.execute_script("return document.querySelectorAll('.tick-y').length") > 0)
            for turned in (False, True):
                wrong, across, plots = browser.execute_script(WRONG_LABELS)
                assert wrong == [], f"{page.stem} at {width}, axes turned: {turned}"
                assert across <= width and plots > 0, page.stem
                browser.execute_script("document.querySelectorAll('.axis-kind').forEach((each) => each.click())")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


FAINT = """
const channel = (value) => { const c = value / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (text) => {
  const [r, g, b] = numbers(text);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if ((numbers(colour)[3] ?? 1) > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const faint = [];
for (const each of document.querySelectorAll('h1, h2, p, td, th, li, summary, button, figcaption, svg text')) {
  if (!each.textContent.trim() || !each.getClientRects().length) continue;
  const style = getComputedStyle(each);
  const [one, two] = [light(each instanceof SVGElement ? style.fill : style.color), light(ground(each))];
  const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  if (contrast < 4.5) faint.push(`${contrast.toFixed(1)}: ${each.tagName} ${each.textContent.trim().slice(0, 40)}`);
}
return [...new Set(faint)];
"""


@pytest.mark.parametrize(("media", "scheme"), [("screen", "light"), ("screen", "dark"), ("print", "light")])
def test_all_text_can_be_read_on_its_ground(browser: Any, pages: list[Path], media: str, scheme: str) -> None:
    """A contrast of 4.5 to 1, which the Web Content Accessibility Guidelines 2.1 ask for (1.4.3)."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    try:
        for page in pages[1:4:2]:  # two columns, and ranges: all kinds of text
            browser.get(page.as_uri())
            wait_for(lambda: browser.execute_script("return document.querySelectorAll('.tick-y').length") > 0)
            assert browser.execute_script(FAINT) == [], page.stem
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


CUT_IN_PICTURE = """
const frame = document.documentElement.getBoundingClientRect();
const texts = [...document.querySelectorAll('text')].map((each) => [each.textContent, each.getBoundingClientRect()]);
const wrong = [];
texts.forEach(([text, box], i) => {
  if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5
      || box.bottom > frame.bottom + 0.5) wrong.push(`${text} is cut`);
  texts.slice(i + 1).forEach(([other, there]) => {
    if (box.left + 0.5 < there.right && there.left + 0.5 < box.right && box.top + 2 < there.bottom
        && there.top + 2 < box.bottom) wrong.push(`${text} covers ${other}`);
  });
});
return [wrong, texts.length];
"""


@pytest.mark.parametrize(("run", "bars"), [("nc48v4", 0), ("torch-bandwidth", 4)])
def test_no_text_of_the_picture_is_cut_or_covered(browser: Any, run: str, bars: int, tmp_path: Path) -> None:
    """The PNG is drawn from the same model by the same places."""
    picture = tmp_path / "plot.svg"
    assert main(["report", f"catalogue:{run}", "--output", str(picture)]) == 0
    assert picture.read_text().count("stroke-opacity: 0.5;") == bars, "ranges of one size are drawn as bars"
    browser.get(picture.as_uri())
    wrong, texts = browser.execute_script(CUT_IN_PICTURE)
    assert texts > 10
    assert wrong == []


def test_bandwidth_starts_at_nothing_and_latency_is_logarithmic_until_asked(opened: Any) -> None:
    def numbers(figure: str) -> list[str]:
        return [each.text for each in opened.find_elements("css selector", f"#{figure} .tick-y")]

    bandwidth = [float(text) for text in numbers("busbw")]
    steps = {round(b - a, 6) for a, b in pairwise(bandwidth)}
    assert bandwidth[0] == 0 and len(steps) == 1, "equal steps from nothing"
    opened.find_element("css selector", "#busbw .axis-kind").click()
    assert "0" not in numbers("busbw"), "a logarithmic axis has no zero"
    opened.find_element("css selector", "#busbw .axis-kind").click()
    assert [float(text) for text in numbers("busbw")] == bandwidth
    assert numbers("ratio")[0].endswith(" x")


def test_all_sizes_unfold(opened: Any) -> None:
    folded = opened.find_elements("css selector", "details")
    assert folded and not folded[0].find_element("css selector", "table").is_displayed()
    folded[0].find_element("css selector", "summary").click()
    rows = folded[0].find_elements("css selector", "tbody tr")
    assert len(rows) == 11 and rows[0].is_displayed()
