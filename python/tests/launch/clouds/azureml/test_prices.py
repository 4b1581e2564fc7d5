"""What nodes cost is never made up: it is named with source and date, or read from a list in the form of Azure's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.launch.clouds.azureml import prices
from busbw.launch.clouds.azureml.settings import EXAMPLE, load

SIZE, REGION = "Standard_ND96asr_v4", "southcentralus"
PRICE = prices.Price(30.0, "EUR", "a made-up list", "2026-11-22")


def item(**changes: Any) -> dict[str, Any]:
    """One of a list, with the members that Azure's list has; the figure is made up."""
    return {
        "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": 12.5, "unitPrice": 12.5, "armRegionName": REGION,
        "location": "US South Central", "effectiveStartDate": "2026-01-01T00:00:00Z", "meterName": "ND96asr v4",
        "productName": "Virtual Machines NDasrv4 Series", "skuName": "ND96asr v4", "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour", "type": "Consumption", "isPrimaryMeterRegion": True, "armSkuName": SIZE,
    } | changes  # fmt: skip


LISTED = [
    item(),
    item(retailPrice=3.5, skuName="ND96asr v4 Spot"),
    item(retailPrice=2.5, skuName="ND96asr v4 Low Priority", meterName="ND96asr v4 Low Priority"),
    item(retailPrice=20.0, productName="Virtual Machines NDasrv4 Series Windows"),
    item(retailPrice=9.0, unitOfMeasure="1 Month"),
    item(retailPrice=7.0, type="Reservation"),
    item(retailPrice=8.0, armRegionName="westeurope"),
]


class Listing:
    """What the list answers, and what it was asked."""

    def __init__(self) -> None:
        self.answer: bytes = json.dumps({"BillingCurrency": "USD", "Items": LISTED, "NextPageLink": None}).encode()
        self.asked: list[str] = []


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listing]:
    made = Listing()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(parse_qs(urlsplit(self.path).query)["$filter"][0])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    monkeypatch.setenv(prices.PLACE, f"http://127.0.0.1:{server.server_address[1]}/api/retail/prices")
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def test_the_price_is_that_of_the_node_the_cluster_would_have(listing: Listing) -> None:
    found = prices.ask(SIZE, REGION, low_priority=False)
    assert (found.node_hour, found.currency, found.date) == (12.5, "USD", "2026-01-01")
    assert prices.ask(SIZE, REGION, low_priority=True).node_hour == 2.5
    assert "armSkuName eq 'Standard_ND96asr_v4' and armRegionName eq 'southcentralus'" in listing.asked[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"Items": []}, "has not one price for .* but none"),
        ({"Items": [item(), item(retailPrice=13.0)]}, "but 12.5 USD, 13 USD"),
        ({"Items": [item(retailPrice=-1)]}, "is no list of prices"),
        ({"Items": [item(retailPrice=True)]}, "is no list of prices"),
        ({"Items": [item(currencyCode="U\x1b[31m")]}, "is no list of prices"),
        ({"Items": 3}, "is no list of prices"),
        ({}, "is no list of prices"),
        (b"<html>", "is no list of prices"),
        (b"[" * 100_000, "is no list of prices"),
    ],
)
def test_a_list_that_does_not_say_it_is_one_sentence(answer: Any, why: str, listing: Listing) -> None:
    listing.answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with pytest.raises(UserError, match=why) as caught:
        prices.ask(SIZE, REGION, low_priority=False)
    assert "--price" in str(caught.value) or "with it" in str(caught.value) or "name it" in str(caught.value)


def test_a_list_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(UserError, match="did not answer"):
        prices.ask(SIZE, REGION, low_priority=False, environ={prices.PLACE: "http://127.0.0.1:9/"})
    with pytest.raises(UserError, match="must begin with https://"):
        prices.ask(SIZE, REGION, low_priority=False, environ={prices.PLACE: "file:///etc/passwd"})


def test_what_the_list_says_can_be_added_to_the_file_of_names(
    listing: Listing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "names.toml"
    file.write_text(EXAMPLE)
    assert main(["azureml", "price", "--config", str(file)]) == 0
    file.write_text(EXAMPLE + capsys.readouterr().out)
    price = load(file).price
    assert price and (price.node_hour, price.currency, price.date) == (12.5, "USD", "2026-01-01")
    assert main(["azureml", "setup", "--dry-run", "--config", str(file)]) == 0
    assert "12.5 USD a node and hour" in capsys.readouterr().out


def test_cost_is_shown_before_a_job_and_after_it() -> None:
    said = prices.before(PRICE, 2, SIZE, 1200, 120)
    assert said == (
        "2 x Standard_ND96asr_v4 cost 60.00 EUR an hour, at 30 EUR a node and hour (a made-up list, 2026-11-22); "
        "at most 22.00 EUR with this time limit and 120 s idle, and what nodes take to start on top"
    )
    assert "without --time-limit nothing ends a job that hangs" in prices.before(PRICE, 2, SIZE, None, 120)
    assert "not known here" in prices.before(None, 2, SIZE, 1200, 120)
    assert prices.after(PRICE, 2, 600).startswith("the job ran 10.0 min on 2 nodes: 10.00 EUR, at 30 EUR")
    assert "not known here" in prices.after(None, 2, 600) and "not known here" in prices.after(PRICE, 2, None)


def test_a_price_on_the_command_line_has_a_currency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "names.toml"
    file.write_text(EXAMPLE)
    words = ["azureml", "submit", "--config", str(file), "--dry-run", "--time-limit", "20m", "--price"]
    assert main([*words, "30 EUR", "all_reduce", "-b", "8"]) == 0
    assert "60.00 EUR an hour, at 30 EUR a node and hour (--price, " in capsys.readouterr().out
    assert main([*words, "30", "all_reduce", "-b", "8"]) == 2
    assert "with its currency, such as '27.2 USD'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('node_hour = 0\ncurrency = "USD"\nsource = "s"\ndate = "2026-11-22"', "price.node_hour is 0"),
        ('node_hour = 1\ncurrency = "usd"\nsource = "s"\ndate = "2026-11-22"', "a currency such as USD"),
        ('node_hour = 1\ncurrency = "USD"\nsource = "s"', "lacks date"),
        ('node_hour = 1\ncurrency = "USD"\ndate = "2026-11-22"', "lacks source"),
    ],
)
def test_a_price_without_source_or_date_is_refused(table: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "names.toml"
    file.write_text(f"{EXAMPLE}\n[price]\n{table}\n")
    with pytest.raises(UserError, match=why):
        load(file)
