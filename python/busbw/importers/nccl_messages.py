"""What NCCL's own messages, between the results of a log, say of the measurement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.base.plugin_settings import TABLE, TUNER, WORDS, setting_of_plugin
from busbw.base.secrets import hide_random
from busbw.importers.context import is_kept
from busbw.importers.values import whole
from busbw.records import ConfSetting

MAX_VARIABLES = 500
_INFO_HOST = re.compile(r"([\w.-]{1,100}):\d{1,10}:\d{1,10} \[-?\d{1,4}\] NCCL ")
_NRANKS = re.compile(r"\bn[rR]anks (\d{1,7})\b")
_VERSION = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?\S{0,40})")
_SET_BY = re.compile(r"\b(NCCL_[A-Z0-9_]{2,80}) set by environment to (\S{1,400}?)\.?$")
_NETWORK = re.compile(r"Using network (\S{1,60})")
_NET_PLUGIN = re.compile(r"Loaded net plugin (\S[^\n]{0,60}?)\s*$")


@dataclass(frozen=True)
class NcclSaid:
    """What NCCL's own messages said about the sweep; `by_plugin` is what plugins said that they set."""

    sizes: frozenset[int]
    host: str | None
    environment: Mapping[str, str]
    version: str | None
    by_plugin: tuple[ConfSetting, ...] = ()
    network: Mapping[str, str] = field(default_factory=dict)
    """The network that NCCL used, and the plugin that it loaded for it."""


class NcclMessages:
    """What NCCL's own messages between the results say: ranks, version, settings, host."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self.by_plugin: dict[str, tuple[str, str]] = {}
        self.network: dict[str, str] = {}
        self.version: str | None = None
        self.host: str | None = None
        self.sizes: set[int] = set()
        self.in_sweep = False

    def feed(self, line: str) -> None:
        """Take one line that holds a message of NCCL."""
        if "anks " in line:
            self._ranks(line)
        elif "set by environment" in line:
            found = _SET_BY.search(line)
            if found and is_kept(found[1]) and len(self.environment) < MAX_VARIABLES:
                self.environment[found[1]] = hide_random(found[2])
        elif "NCCL version" in line:
            version = _VERSION.search(line)
            if version:
                self.version = version[1]
        elif "Using network" in line or "Loaded net plugin" in line:
            for name, words in (("network", _NETWORK), ("network plugin", _NET_PLUGIN)):
                if found := words.search(line):
                    self.network.setdefault(name, hide_random(found[1]))
        elif any(word in line for word in WORDS):
            self._plugin(line)

    def _plugin(self, line: str) -> None:
        said = setting_of_plugin(line)
        if said and (is_kept(said[0]) or said[0] in {TUNER, TABLE}) and len(self.by_plugin) < MAX_VARIABLES:
            self.by_plugin[said[0]] = (hide_random(said[1]), said[2])

    def _ranks(self, line: str) -> None:
        # The messages of a communicator's end straggle in after the table that it belongs to.
        if not self.in_sweep and "Destroy" in line:
            return
        found = _NRANKS.search(line)
        if found and len(self.sizes) < 100:
            self.sizes.add(whole(found[1]) or 0)
            host = _INFO_HOST.search(line)
            self.host = host[1] if host else self.host

    def standing(self) -> tuple[object, ...]:
        """What later lines depend on."""
        return (
            self.environment,
            self.by_plugin,
            self.network,
            self.version,
            self.host,
            sorted(self.sizes),
            self.in_sweep,
        )

    def sweep_starts(self) -> None:
        """From here on every message belongs to the sweep."""
        self.in_sweep = True

    def sweep_ends(self) -> NcclSaid:
        """What they said of the sweep that just ended."""
        by_plugin = tuple(
            # NCCL calls "environment" what a plugin has put there.
            ConfSetting(name, value, who, in_force=self.environment.get(name, value) == value)
            for name, (value, who) in self.by_plugin.items()
        )
        found = NcclSaid(frozenset(self.sizes), self.host, self.environment, self.version, by_plugin, self.network)
        self.sizes, self.host, self.environment, self.by_plugin, self.network = set(), None, {}, {}, {}
        self.in_sweep = False
        return found
