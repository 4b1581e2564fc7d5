"""The TOML file that holds every name: subscription, group, workspace, cluster, environment. It holds no secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.toml import parse_toml
from busbw.launch.clouds.azureml.prices import Price

MOST_BYTES = 1 << 20
SUBSCRIPTION = "AZURE_SUBSCRIPTION_ID"
EXAMPLE = """\
[azure]
subscription = "00000000-0000-0000-0000-000000000000"   # or AZURE_SUBSCRIPTION_ID
resource_group = "busbw"
location = "southcentralus"
workspace = "busbw"

[cluster]
name = "ndv4"
vm_size = "Standard_ND96asr_v4"
nodes = 2
gpus_per_node = 8

[environment]
name = "busbw"
image = "registry.example.com/busbw:1"   # with busbw-engine in it

# [price]: what a node costs an hour; `busbw azureml price` prints this table from Azure's public list.
"""


@dataclass(frozen=True)
class Azure:
    """Where everything lies."""

    subscription: str
    resource_group: str
    location: str
    workspace: str


@dataclass(frozen=True)
class Cluster:
    """What costs money while it runs; it shrinks to no node when idle."""

    name: str
    vm_size: str
    nodes: int
    gpus_per_node: int
    idle_seconds: int = 120
    low_priority: bool = False
    identity: str = "system_assigned"  # the nodes' managed identity: that, none, or the id of one of yours


@dataclass(frozen=True)
class Environment:
    """The image that the ranks run in."""

    name: str
    image: str
    engine: str = "busbw-engine"
    version: str = "1"


@dataclass(frozen=True)
class Settings:
    """The whole file."""

    azure: Azure
    cluster: Cluster
    environment: Environment
    experiment: str = "busbw"
    price: Price | None = None


_NAMES = {
    "azure.subscription": (r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", "a subscription's id, a GUID"),
    "azure.resource_group": (r"[A-Za-z0-9_().-]{0,89}[A-Za-z0-9_()-]", "up to 90 letters, digits and _-.()"),
    "azure.location": (r"[a-z0-9]{2,40}", "a region such as southcentralus"),
    "azure.workspace": (r"[A-Za-z0-9][A-Za-z0-9_-]{2,32}", "3 to 33 letters, digits, - and _"),
    "cluster.name": (r"[A-Za-z][A-Za-z0-9-]{1,30}[A-Za-z0-9]", "3 to 32 letters, digits and -, a letter first"),
    "cluster.vm_size": (r"[A-Za-z0-9_]{3,60}", "a VM size such as Standard_ND96asr_v4"),
    "environment.name": (r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", "letters, digits and -_."),
    "environment.version": (r"[A-Za-z0-9_.-]{1,30}", "letters, digits and -_."),
    "environment.image": (r"[A-Za-z0-9][A-Za-z0-9_./:@-]{1,250}", "an image such as registry/busbw:1"),
    "environment.engine": (r"[A-Za-z0-9_./-]{1,250}", "the engine's place in the image"),
    "cluster.identity": (
        r"system_assigned|none|/subscriptions/[A-Za-z0-9_./()-]{10,400}",
        "system_assigned, none, or the id of a managed identity (/subscriptions/...)",
    ),
    "price.currency": (r"[A-Z]{3}", "a currency such as USD"),
    "price.source": (r"[^\x00-\x1f\"\\]{1,300}", "where the price was read"),
    "price.date": (r"\d{4}-\d\d-\d\d", "the day on which the price was valid, such as 2026-11-22"),
    "experiment": (r"[A-Za-z0-9][A-Za-z0-9_-]{0,250}", "letters, digits, - and _"),
}
_COUNTS = {"cluster.nodes": 1000, "cluster.gpus_per_node": 64, "cluster.idle_seconds": 86_400}


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file, every name checked."""
    try:
        text = read_text(path, MOST_BYTES, what="the file of names for Azure ML", hint="it is hardly a file of names")
    except UserError as problem:
        sentence = f"{problem}; `busbw azureml example` prints such a file"
        raise UserError(sentence, exit_code=problem.exit_code) from None
    return from_document(parse_toml(text, str(path)), str(path), environ)


def from_document(document: Mapping[str, Any], where: str, environ: Mapping[str, str]) -> Settings:
    """The settings in a parsed file."""
    parts = {"azure": Azure, "cluster": Cluster, "environment": Environment}
    unknown = set(document) - set(parts) - {"experiment", "price"}
    if unknown:
        known = "azure, cluster, environment, price and experiment"
        raise UserError(f"{where}: there is no '{min(unknown)}'; it takes {known}")
    azure = {"subscription": environ.get(SUBSCRIPTION, ""), **_table(document, "azure", where)}
    tables = {**{name: _table(document, name, where) for name in parts}, "azure": azure}
    made: dict[str, Any] = {name: _make(kind, name, tables[name], where) for name, kind in parts.items()}
    made["price"] = _make(Price, "price", _table(document, "price", where), where) if "price" in document else None
    experiment = document.get("experiment", "busbw")
    _check("experiment", experiment, where)
    return Settings(**made, experiment=experiment)


def _make(kind: type, name: str, table: Mapping[str, Any], where: str) -> Any:
    known = {each.name: each for each in fields(kind)}
    for key in table:
        if key not in known:
            raise UserError(f"{where}: [{name}] has no '{key}'; it takes {', '.join(known)}")
    for key, each in known.items():
        if key not in table and not isinstance(each.default, (str, int)):
            raise UserError(f"{where}: [{name}] lacks {key}")
    for key, value in table.items():
        _check(f"{name}.{key}", value, where)
    return kind(**table)


def _check(name: str, value: Any, where: str) -> None:
    if name == "price.node_hour":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
            raise UserError(f"{where}: {name} is {value!r}; it must be what a node costs an hour")
    elif name in _COUNTS:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _COUNTS[name]:
            raise UserError(f"{where}: {name} is {value!r}; it must be a number from 1 to {_COUNTS[name]}")
    elif name in _NAMES:
        pattern, meaning = _NAMES[name]
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise UserError(f"{where}: {name} is {value!r}; it must be {meaning}")
    elif not isinstance(value, bool):
        raise UserError(f"{where}: {name} is {value!r}; it must be true or false")


def _table(document: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        raise UserError(f"{where}: there is no [{name}]; `busbw azureml example` prints such a file")
    return table
