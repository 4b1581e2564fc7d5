"""What nodes cost: a price that somebody names with its source and date, or the one in Azure's public list."""

from __future__ import annotations

import datetime
import http.client
import json
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.base.errors import UsageError, UserError

LIST = "https://prices.azure.com/api/retail/prices"
"""Azure's retail prices: public, without a credential. BUSBW_AZURE_PRICES names another place."""
PLACE = "BUSBW_AZURE_PRICES"
ANSWER_SECONDS = 20.0
MOST_BYTES = 8 << 20
_SAID = re.compile(r"(?P<amount>\d{1,6}(?:\.\d{1,6})?)\s*(?P<currency>[A-Z]{3})")


@dataclass(frozen=True)
class Price:
    """Of one node for an hour; nothing here knows a price by itself."""

    node_hour: float
    currency: str
    source: str
    date: str  # of the price, as its source has it

    def of(self, nodes: int, seconds: float) -> str:
        """What so many nodes cost in this time."""
        return f"{self.node_hour * nodes * seconds / 3600:.2f} {self.currency}"

    def __str__(self) -> str:
        return f"{self.node_hour:g} {self.currency} a node and hour ({self.source}, {self.date})"


def said(text: str) -> Price:
    """`--price "27.2 USD"`."""
    found = _SAID.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--price {text}: write what a node costs an hour with its currency, such as '27.2 USD'")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return Price(float(found["amount"]), found["currency"], "--price", today)


def before(price: Price | None, nodes: int, vm_size: str, limit: float | None, idle: float) -> str:
    """What a job may cost, told before it is submitted."""
    if price is None:
        return (
            f"{nodes} x {vm_size}: their price is not known here; name it with --price, or add what "
            "`busbw azureml price` finds to the file of names"
        )
    each_hour = f"{nodes} x {vm_size} cost {price.of(nodes, 3600)} an hour, at {price}"
    if limit is None:
        return f"{each_hour}; without --time-limit nothing ends a job that hangs"
    most = price.of(nodes, limit + idle)
    return f"{each_hour}; at most {most} with this time limit and {idle:g} s idle, and what nodes take to start on top"


def after(price: Price | None, nodes: int, seconds: float | None) -> str:
    """What a job has cost, as far as its running time tells."""
    if seconds is None:
        return "how long the job ran is not known here, and so is not what it cost; the studio shows it"
    ran = f"the job ran {seconds / 60:.1f} min on {nodes} nodes"
    if price is None:
        return f"{ran}; what that costs is not known here (--price)"
    return f"{ran}: {price.of(nodes, seconds)}, at {price}; nodes that start or idle cost more"


def ask(vm_size: str, location: str, *, low_priority: bool, environ: Mapping[str, str] = os.environ) -> Price:
    """The price of a node in Azure's public list; UserError where the list does not say exactly one."""
    wanted = f"armSkuName eq '{vm_size}' and armRegionName eq '{location}' and priceType eq 'Consumption'"
    place = environ.get(PLACE) or LIST
    if not place.startswith(("https://", "http://127.0.0.1:")):
        raise UserError(f"{PLACE} is {place}; it must begin with https://")
    url = f"{place}?{urllib.parse.urlencode({'$filter': wanted})}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            data = answer.read(MOST_BYTES)
        items = json.loads(data)["Items"]
        found = {_priced(each) for each in items if _fits(each, vm_size, location, low_priority=low_priority)}
    except (OSError, http.client.HTTPException) as problem:
        raise UserError(f"Azure's list of prices did not answer ({problem}); name the price with --price") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"what {place} answered is no list of prices; name the price with --price") from None
    if len(found) != 1:
        amounts = ", ".join(sorted(f"{amount:g} {currency}" for amount, currency, _ in found)) or "none"
        raise UserError(
            f"Azure's list has not one price for {vm_size} in {location}, but {amounts}; name it with --price"
        )
    ((amount, currency, date),) = found
    return Price(amount, currency, place, date)


def _fits(item: Mapping[str, Any], vm_size: str, location: str, *, low_priority: bool) -> bool:
    """Whether an item is the node that the cluster would have: Linux, by the hour, dedicated or of low priority."""
    names = f"{item['skuName']} {item['meterName']}"
    kind = "low" if "Low Priority" in names else "spot" if "Spot" in names else "dedicated"
    return (
        (item["armSkuName"], item["armRegionName"], item["type"]) == (vm_size, location, "Consumption")
        and item["unitOfMeasure"] == "1 Hour"
        and "Windows" not in item["productName"]
        and kind == ("low" if low_priority else "dedicated")
    )


def _priced(item: Mapping[str, Any]) -> tuple[float, str, str]:
    amount, currency, date = item["retailPrice"], str(item["currencyCode"]), str(item["effectiveStartDate"])[:10]
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount < 1e9:
        raise ValueError("no price")
    if not re.fullmatch(r"[A-Z]{3}", currency) or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise ValueError("no currency, or no date")
    return float(amount), currency, date


def as_table(price: Price) -> str:
    """For the file of names."""
    return (
        f'[price]\nnode_hour = {price.node_hour!r}\ncurrency = "{price.currency}"\nsource = "{price.source}"\n'
        f'date = "{price.date}"\n'
    )
