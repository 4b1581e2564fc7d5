"""Clues of AWS security groups: whether a listing of their rules lets EFA's packets in from, and out to, the group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_SILENT = re.compile(
    r"\b4126\b|handshake failed|[Uu]nresponsive (?:remote|receiver)|[Uu]nreachable remote|never received a response"
)
_GROUP = re.compile(r"\bsg-[0-9a-f]{8,17}\b")
_HEAD = re.compile(r"^\|[^\n]{0,300}\|\s*$", re.MULTILINE)
_EGRESS = {"egress", "isegress"}
_JSON = re.compile(r"\"(?P<way>IpPermissions(?:Egress)?)\": \[")
_MOST, _LONGEST = 200, 4000


@dataclass(frozen=True, slots=True)
class _Rules:
    """Whether all may come in from the group itself, and go out to it, by one listing."""

    inward: bool
    outward: bool
    at: Evidence


def group_without_itself(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The rules that are listed lack the one of the group to itself: 0.0.0.0/0 does not count for EFA."""
    if not any(_SILENT.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        for rules in (*_of_tables(text), *_of_json(text)):
            if rules.inward and rules.outward:
                continue
            ways = [way for way, there in (("inbound from", rules.inward), ("outbound to", rules.outward)) if not there]
            other = "" if len(ways) > 1 else ", though it has the other one"
            group = _GROUP.search(text.text)
            own = f" {group[0]}" if group else ""
            return Sharper(
                f"the instances' security group{own} has no rule {' and '.join(ways)} itself{other}: EFA's packets do "
                "not come through, for which 0.0.0.0/0 does not count",
                f"add to that group: all traffic (protocol -1), {' and '.join(ways)} the group itself (its own ID as "
                "source and destination, and no address range). Then fi_pingpong -p efa between the two instances "
                "must run. Placement, subnet and the EFA driver are not at fault",
                (rules.at,),
            )
    return None


def _of_tables(text: Text) -> Iterator[_Rules]:
    """The tables of `aws ec2 describe-security-group-rules --output table` that have the columns for it."""
    names: list[str] = []
    rows: list[tuple[dict[str, str], int]] = []
    for count, found in enumerate(_HEAD.finditer(text.text)):
        if count >= _MOST:
            break
        cells = [each.strip() for each in found[0].strip().strip("|").split("|")]
        if _EGRESS & {each.lower() for each in cells}:
            names = [each.lower() for each in cells]
        elif names and len(cells) == len(names):
            rows.append((dict(zip(names, cells, strict=True)), found.start()))
    ways = {True: False, False: False}
    for row, _ in rows:
        out = row.get("egress", row.get("isegress", "")).lower() == "true"
        of_all = row.get("proto", row.get("ipprotocol", "-1")) == "-1"
        ways[out] |= of_all and any(_GROUP.fullmatch(each) for each in row.values())
    # Without both directions it is a part of the rules.
    if rows and len({row.get("egress", row.get("isegress", "")).lower() for row, _ in rows}) > 1:
        yield _Rules(ways[False], ways[True], text.evidence(rows[0][1]))


def _of_json(text: Text) -> Iterator[_Rules]:
    """The rules of `aws ec2 describe-security-groups`, as JSON."""
    parts = list(_JSON.finditer(text.text))
    ways: dict[str, bool] = {}
    for number, part in enumerate(parts):
        end = parts[number + 1].start() if number + 1 < len(parts) else part.end() + _LONGEST
        inside = text.text[part.end() : end].partition('"Tags"')[0]
        pairs = re.search(r"\"UserIdGroupPairs\": \[[^\]]{0,800}\"GroupId\": \"sg-", inside)
        ways[part["way"]] = ways.get(part["way"], False) or pairs is not None
    if len(ways) == len(("in", "out")):
        yield _Rules(ways["IpPermissions"], ways["IpPermissionsEgress"], text.evidence(parts[0].start()))
