"""What somebody asked a machine, and what it answered, told in a sentence: an answer alone says too little.

`0x8027` is a partition key by the command before it alone. Each reader puts the sentence in the place of the answer's
line, so that lines keep their numbers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

MOST = 4096
"""Lines of answers that one reader looks into."""
_KEYS = re.compile(r"\bports/\d{1,2}/pkeys\b")
_KEY = re.compile(r"^(?:(?P<host>[A-Za-z][\w.-]{0,80}): )?(?:/\S{4,120}:)?(?P<key>0x[0-9a-fA-F]{4})\s*$")
_KEY_ROW = re.compile(
    r"^(?P<host>[A-Za-z][\w.-]{0,80}): [^\n]{0,120}?"
    r"(?P<keys>(?:\b0x[0-9a-fA-F]{4}[ \t]{1,8}){0,16}\b0x[0-9a-fA-F]{4})\s*$"
)
"""Several keys of a port behind what else a loop over hosts prints of it."""
_PROMPT = re.compile(r"^\W?(?:[\w.-]{1,40}@)?(?P<host>[A-Za-z][\w.-]{0,80})(?:[: ][^$#>]{0,80})?[\]$#>] ?[$#]? ?")
_LOOP = re.compile(r"\bfor \w{1,40} in\b|\b(?:pdsh|clush|pssh|dsh|ansible)\b")
"""A command that asks several hosts: each one's name stands above what it answers."""
_ASKS = re.compile(r"^(?:\[?[\w.-]{1,40}@[\w.-]{1,80}\b.{0,80}?)?[$#] \S")
"""A prompt with the next command."""
_OF_HOST = re.compile(r"^(?P<mark>[=#*>-]{1,16} {0,3})?(?P<host>[A-Za-z][\w.-]{0,80})(?: {0,3}[=#*<:-]{1,16})?\s*$")
_MEMBER = 0x8000
"""The bit of a key whose port is a full member of the partition."""
_LIMITED = 0x7FFF
"""The key's number without that bit; of all ones it is the default partition's."""
_MOST_SETS = 64
"""Different tables of keys that are laid beside each other."""
_PFC = re.compile(r"^\s{1,20}enabled(?:\s{1,8}[01]){8}\s*$")
_SEVERAL = re.compile(r"\bcat \S{0,200}_counters/\{(?P<names>[a-z_,]{8,400})\}")
_OWN = "127.0.1.1"
"""The address that Debian's installer gives a host's own name."""
_OWN_NAME = re.compile(
    r"^(?:[\w.-]{1,80}: )?\s{0,8}127\.0\.1\.1\s{1,20}(?P<host>(?!localhost\b)[A-Za-z][\w.-]{0,80})(?:\s|$)"
)
_COUNT = re.compile(r"^\s{0,8}\d{1,20}\s*$")


def told(lines: list[str]) -> list[str]:
    """The lines, with a sentence in place of each answer that says what it is only together with its question."""
    kept = lines
    if any("/pkeys" in each for each in kept):
        kept = _partitions(kept)
    if any("PFC configuration" in each for each in kept):
        kept = _flow_control(kept)
    if any("_counters/{" in each for each in kept):
        kept = _counters(kept)
    if any(_OWN in each for each in kept):
        kept = _own_names(kept)
    return kept


def _own_names(lines: list[str]) -> list[str]:
    """What a row of /etc/hosts or `getent hosts` tells of a host's own name: a row of digits and a name alone."""
    kept = list(lines)
    for at, line in enumerate(lines):
        if _OWN in line and (row := _OWN_NAME.match(line)):
            kept[at] = f"the name {row['host']} is resolved to {_OWN}: {line.strip()}"
    return kept


def _partitions(lines: list[str]) -> list[str]:
    """Partition keys of ports, where those of two hosts have none in common."""
    keys, last = defaultdict[str, set[int]](set), 0
    for at, host, key in _keys(lines):
        keys[host].add(key)
        last = at
    # A full member and a limited one may talk, two limited ones may not.
    sets = [{each & _LIMITED for each in found if each & _MEMBER} for found in keys.values()]
    sets = [each for each in sets if each]
    kept = list(lines)
    if len(sets) >= 2 and not set[int].intersection(*sets):
        shown = ", ".join(f"{host} {min(found):#06x}" for host, found in _full(keys))
        kept[last] = f"P_Keys say that hosts are in different partitions of InfiniBand: {shown}"
    elif limited := _limited_alike(keys):
        kept[last] = f"P_Keys say that hosts are limited members of one partition: {limited}"
    return kept


def _limited_alike(keys: dict[str, set[int]]) -> str:
    """The hosts that share a partition as limited members alone, and no other that lets them talk; "" without such.

    Of the default partition most hosts are limited members, as nothing but the subnet manager uses it.
    """
    alike: dict[frozenset[int], int] = defaultdict(int)
    for found in keys.values():
        alike[frozenset(found)] += 1
    sets = list(alike)[:_MOST_SETS]
    for mine in sets:
        for theirs in sets:
            both = {each & _LIMITED for each in mine} & {each & _LIMITED for each in theirs} - {0}
            if (mine == theirs and alike[mine] < 2) or not both - {_LIMITED}:
                continue
            if any(part | _MEMBER in mine | theirs for part in both):
                continue
            part = min(both - {_LIMITED})
            limited = [each for each, found in keys.items() if part in found and part | _MEMBER not in found]
            full = [each for each, found in keys.items() if part | _MEMBER in found]
            said = f"{', '.join(limited[:8])} {part:#06x}"
            return said + (f"; full members: {', '.join(full[:4])} {part | _MEMBER:#06x}" if full else "")
    return ""


def _full(keys: dict[str, set[int]]) -> list[tuple[str, set[int]]]:
    """Of each host the keys whose full member it is, of the first few."""
    full = [(host, {each for each in found if each & _MEMBER}) for host, found in keys.items()]
    return [(host, found) for host, found in full if found][:4]


def _keys(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """Where a key stands, the host it is of, and the key."""
    asked, host, loop = 0, "", ""
    for at, line in enumerate(lines, 1):
        if _KEYS.search(line) and not _KEY.match(line):
            prompt = _PROMPT.match(line)
            asked, host = at, prompt["host"] if prompt else ""
            loop = line if _LOOP.search(line) else ""
        elif asked and at - asked > MOST:
            return
        elif asked and (found := _KEY.match(line)):
            yield at - 1, found["host"] or host, int(found["key"], 16)
        elif asked and (row := _KEY_ROW.match(line)):
            for key in row["keys"].split():
                yield at - 1, row["host"], int(key, 16)
        elif asked and loop and (head := _OF_HOST.match(line)) and (head["mark"] or head["host"] in loop):
            host = head["host"]
        elif line.strip() and not (loop and not _ASKS.match(line)):
            asked = 0 if not line.startswith("---") else asked


def _flow_control(lines: list[str]) -> list[str]:
    """What `mlnx_qos` tells of an interface without flow control of any priority."""
    kept, near = list(lines), -1
    for at, line in enumerate(lines):
        if "PFC configuration" in line:
            near = at + 3
        elif at <= near and _PFC.match(line) and "1" not in line:
            kept[at] = "mlnx_qos says that flow control (PFC) is off for every priority"
    return kept


def _counters(lines: list[str]) -> list[str]:
    """Counters that a shell read by a list of names, each value behind its name."""
    kept, names = list(lines), list[str]()
    for at, line in enumerate(lines):
        if found := _SEVERAL.search(line):
            names = found["names"].split(",")
        elif names and _COUNT.match(line):
            kept[at] = f"{names.pop(0)}: {line.strip()}"
        else:
            names = []
    return kept
