"""Clues of one NIC against all others of its host: the one that errors name, that a test fails on, or set apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 2000
_NAMED = re.compile(
    r"(?P<who>[\w.-]{1,60}:\d{1,8}):\d{1,8} \[\d{1,3}\][^\n]{0,120}?Got (?:async event|completion)[^\n]{0,300}?"
    r"\bhca (?P<dev>\w{2,30})\b"
)
"""An error of a transfer, with the NIC of it."""
_USING = re.compile(r"\[\d{1,2}\](?P<dev>\w{2,30}):\d{1,2}/(?:IB|RoCE)\b")
_CARD = re.compile(r"^\s{0,8}(?:CA '(?P<ca>\w{2,30})'|hca_id:\s{1,8}(?P<hca>\w{2,30}))", re.MULTILINE)
_FIELD = re.compile(
    r"^\s{1,24}(?P<field>SM lid|sm_lid|Rate|Link layer|link_layer|active_mtu|State|state):\s{1,24}"
    r"(?P<value>[^\n(]{1,40}?)"
    r"\s{0,8}(?:\([^)\n]{0,20}\))?\s*$",
    re.MULTILINE,
)
"""What `ibstat` and `ibv_devinfo` list of a port."""
_MEANS = {
    "sm lid": "another subnet (SM lid {own}, the others {other})",
    "rate": "another rate ({own}, the others {other})",
    "link layer": "another kind of link ({own}, the others {other})",
    "active mtu": "another MTU ({own}, the others {other})",
    "state": "state {own} (the others {other})",
}
_TEST = re.compile(
    r"^(?:={2,6} ?|-{2,6} ?|#{1,3} ?)(?P<mark>[a-z]\w{2,29})\b[^\n]{0,20}$"
    r"|^[^\n]{0,200}\bib_(?:write|read|send)_(?:bw|lat)\b[^\n]{0,120}? (?:-d|--ib-dev)[ =](?P<dev>\w{2,30})\b",
    re.MULTILINE,
)
"""Where the output of perftest begins for a NIC: the command, or the head that a loop prints."""
_TEST_FAILED = re.compile(
    r"Completion with error|Failed status \d{1,3}|Couldn't connect|Unable to (?:Connect|init|find)|Failed to modify QP"
)
_TEST_ROW = re.compile(r"^\s{0,4}\d{1,10}\s{1,16}\d{1,9}\s{1,20}\d[\d.]{0,12}\s{1,20}\d", re.MULTILINE)


def one_nic_alone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All errors name one NIC, and something tells it apart from the others of its host."""
    said = [(text, found) for text in texts for found in islice(_NAMED.finditer(text.text), _MOST)]
    names = {found["dev"] for _, found in said}
    if len(names) != 1:
        return None
    dev = names.pop()
    others = _known(texts) - {dev}
    if not others:
        return None
    apart = [why for text in texts for why in (_by_field(text, dev), _by_test(text, dev)) if why is not None]
    hosts = {found["who"].partition(":")[0] for _, found in said}
    if not apart and len(hosts) < 2:
        return None
    why = "; ".join(dict.fromkeys(each for each, _ in apart)) or f"ranks of {len(hosts)} hosts name no other one"
    return Sharper(
        f"one NIC alone fails, {named(dev)}: {why}. RDMA packets get no answer over it, "
        f"and do over the {len(others)} other{'s' if len(others) > 1 else ''}",
        f"look where the port of {named(dev)} leads on both hosts (ibstat, iblinkinfo, show_gids): to the same "
        f"switches, subnet and subnet manager as that of its peer. Mend its cable, switch port or cabling. Until then "
        f"leave it out on all nodes: NCCL_IB_HCA=^{named(dev)}. GPU, timeouts and other "
        "settings are right",
        tuple(evidence for _, evidence in apart[:4]),
    )


def _known(texts: Sequence[Text]) -> set[str]:
    return {
        name
        for text in texts
        for words in (_USING, _CARD, _TEST)
        for found in islice(words.finditer(text.text), _MOST)
        for name in found.groups()
        if name
    }


def _by_field(text: Text, dev: str) -> tuple[str, Evidence] | None:
    """A value of the NIC's port that no other port of the list has, where the others agree."""
    fields: dict[str, dict[str, tuple[str, int]]] = {}
    cards = list(islice(_CARD.finditer(text.text), _MOST))
    for card, after in zip(cards, [*cards[1:], None], strict=False):
        end = min(after.start() if after is not None else len(text.text), card.end() + 2000)
        name = card["ca"] or card["hca"]
        for found in _FIELD.finditer(text.text, card.end(), end):
            field = found["field"].lower().replace("_", " ")
            fields.setdefault(field, {}).setdefault(name, (found["value"], found.start("value")))
    for field, means in _MEANS.items():
        values = fields.get(field, {})
        if (other := odd_one_out({name: value for name, (value, _) in values.items()}, dev)) is not None:
            own, at = values[dev]
            return f"it has {means.format(own=named(own, 20), other=named(other, 20))}", text.evidence(at)
    return None


def odd_one_out(values: Mapping[str, str], name: str) -> str | None:
    """The value on which all others agree, two of them at least, where that name has another one."""
    others = Counter(value for each, value in values.items() if each != name)
    if name not in values or len(others) != 1 or others.total() < 2:
        return None
    other = next(iter(others))
    return other if other != values[name] else None


def _by_test(text: Text, dev: str) -> tuple[str, Evidence] | None:
    """perftest fails on that NIC, and gives figures on others."""
    failed, passed = None, False
    for name, begin, end in _sections(text):
        bad = _TEST_FAILED.search(text.text, begin, end)
        if name == dev and bad is not None:
            failed = text.evidence(bad.start())
        elif name != dev and bad is None:
            passed = passed or _TEST_ROW.search(text.text, begin, end) is not None
    return ("a test between the hosts (ib_write_bw) fails on it alone", failed) if failed and passed else None


def _sections(text: Text) -> Iterator[tuple[str, int, int]]:
    heads = list(islice(_TEST.finditer(text.text), _MOST))
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        yield head["mark"] or head["dev"], head.end(), after.start() if after is not None else len(text.text)
