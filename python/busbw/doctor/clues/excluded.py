"""Readings that the log or its writer excludes leave title and cure: a port that answers, a setting without effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text


@dataclass(frozen=True, slots=True)
class _Excluded:
    """What the log says, what it must not say, and what then becomes of phrases of title and cure."""

    names: frozenset[str]
    words: re.Pattern[str]
    never: re.Pattern[str]
    phrases: tuple[tuple[re.Pattern[str], str], ...]


_MOST = 200
_NOT = r"\b(?:not|n't|never|cannot|fails?|failed|refused|no longer|unable)\b"


def _row(names: str, words: str, *phrases: tuple[str, str], never: str = "(?!)") -> _Excluded:
    return _Excluded(
        frozenset(names.split()),
        re.compile(words, re.MULTILINE | re.IGNORECASE),
        re.compile(never, re.MULTILINE | re.IGNORECASE),
        tuple((re.compile(old), new) for old, new in phrases),
    )


_ROWS = (
    # The port of rank 0 is reached by hand.
    _row(
        "master-unreachable rendezvous-timeout",
        r"^Connected to [\w.-]{3,60}\.$"
        r"|\bNcat: Connected to [\w.-]{3,60}:\d{1,5}"
        r"|\bConnection to [\w.-]{3,60} (?:\([\w.:]{3,60}\) )?\d{1,5} port \[[^\]\n]{1,40}\] succeeded"
        r"|^\S{3,60} (?:\([\w.:]{3,60}\) |\[[\w.:]{3,60}\] )?\d{2,5} (?:\([\w-]{1,30}\) |port \[[^\]\n]{1,40}\] )?"
        r"(?:open\b|succeeded!)"
        rf"|\b(?:telnet|nc|netcat)\b(?![^\n]{{0,60}}{_NOT})[^\n]{{0,60}}"
        r"\b(?:connects|works|succeeds|is (?:fine|ok)|can connect)\b",
        (
            r"some node did not start, or cannot reach the store",
            "some node did not start, or with another node rank, number of nodes or id of the job (its port answers)",
        ),
        (r"(?:, or|, and) cannot reach the (?:first one|store)", ", or came to another store (the port answers)"),
        (r"wrong address, rank 0 gone, or a firewall", "rank 0 was not up yet, or is gone (its port answers by hand)"),
        (
            r"set MASTER_ADDR to an address of rank 0's host that all nodes reach, start rank 0(?:, open the port in "
            r"the firewall)?",
            "start rank 0 before the time of the others is over, and see in its log why it came late or went. Look "
            "that each node has its own node rank. Address and port are right",
        ),
        (r"; open MASTER_PORT", ", and a node rank of its own on each"),
    ),
    # No other job has the port: it is free before the start, or another one is no better.
    _row(
        "port-in-use",
        r"\bchang(?:e|es|ed|ing) (?:the |my |of )?ports?\b[^\n]{0,40}(?:\bnot\b|n't|\bno\b)"
        r"|\b(?:(?:an)?other|different|several|many|random|new|any) (?:free )?ports?\b[^\n]{0,60}"
        r"\b(?:same|still|(?:not|n't) (?:help|work)|no (?:help|luck|change|difference))"
        r"|\b(?:ss|netstat|lsof)\b[^\n]{0,80}\b(?:shows? nothing|(?:is|are) empty|no output|nothing|finds? nothing)\b"
        r"|^[^\n]{0,80}[$#] ?(?:sudo )?(?:ss|netstat) -\w{2,8} ?\| ?grep :?\d{4,5}\s*\n[^\n]{0,80}[$#] ?",
        (
            r"is taken: another job, or a left-over process of this one",
            "is taken within this very job, as it is free before the start: two launchers or two ranks 0 on one host "
            "ask for it",
        ),
        (
            r"end the left-over process, or take another port \([^)]{0,120}\)",
            "start one launcher per node (srun --ntasks-per-node=1 torchrun, each with its node rank). No second "
            "program or group may have the same MASTER_PORT. While it starts, ps -ef --forest on rank 0's host "
            "shows who is there twice. Another port does not help",
        ),
        never=r"users:\(\(|\bLISTEN\b[^\n]{0,80}/\w",
    ),
    # The limit of a shell is no limit.
    _row(
        "memlock",
        r"ulimit -\w{0,3}l\w{0,3}\b(?!\W{0,3} to \W?unlimited)[^\n]{0,40}"
        r"(?:\n[^\n]{0,80}|\b(?:is|says|shows|=)?[^\n]{0,20})\bunlimited\b"
        r"|\bmax locked memory\s(?!\(ulimit -l\) to)[^\n]{0,60}\bunlimited",
        (
            r"the limit on locked memory \(memlock\) is too low for RDMA",
            "memory cannot be locked for RDMA, though a shell's limit is unlimited: ranks were started under another "
            "limit, or the NIC has no room for more",
        ),
        (
            r"set memlock to unlimited: docker --ulimit memlock=-1, /etc/security/limits\.conf, LimitMEMLOCK=infinity "
            r"for slurmd or the container runtime\. Where it is unlimited, the NIC",
            "look at a rank itself: grep locked /proc/PID/limits. Where it is low, what starts ranks has the limit: "
            "LimitMEMLOCK=infinity for slurmd, sshd or the container runtime, docker --ulimit memlock=-1; restart it. "
            "Where it is unlimited there too, the NIC",
        ),
        # The limit of the job itself, small beside that of a login.
        never=r"ulimit -\w{0,3}l\w{0,3}\b[^\n]{0,80}\n\d{1,6}\s*$|\bmax locked memory\s[^\n]{0,60}\s\d{1,6}\s*$"
        r"|\(current: \d{1,7} kbytes\)",
    ),
    # An InfiniBand fabric has no GIDs to choose from.
    _row(
        "ib-retry ib-completion-error ib-connect-timeout",
        r"\bmlx\d_\w{1,12}:\d{1,2}/IB\b|\blink layer:\s{1,12}infiniband|\bbase lid:\s{1,12}[1-9]\d{0,5}\b",
        (r"fabric, routing, GID or a dead peer", "fabric, routing or a dead peer"),
        (r"(?:; on RoCE|\. On RoCE|On RoCE) set NCCL_IB_GID_INDEX [^;.]{0,120}", ""),
        never=r"/RoCE\b|\blink layer:\s{1,12}ethernet|\bgid index\b",
    ),
    # Who answers ping is on an interface that reaches.
    _row(
        "connection-timeout",
        r"^\d{1,5} bytes from (?:\S{1,60} \()?(?P<host>\d{1,3}(?:\.\d{1,3}){3})\b",
        (r" drops them, or the interface is wrong$", " drops them, as the host answers ping"),
        (r", set NCCL_SOCKET_IFNAME to the right interface$", ". The interface is right"),
    ),
    # Nothing filters.
    _row(
        "connection-timeout connection-refused no-route master-unreachable",
        r"\b(?:firewalls?|firewalld|ufw|iptables)\b(?: service)? (?:is|are|was|were)? ?"
        r"(?:already |all )?(?:off|disabled|stopped|inactive|down|not running)\b"
        r"|^Status: inactive$|firewalld\.service(?:[^\n]{0,200}\n){1,4}?[^\n]{0,20}Active: inactive"
        r"|\bno firewall\b(?! rule)",
        (r"(?<=: )a firewall or security group drops them, or the interface is wrong",
         "the interface is wrong, or a security group of the cloud drops them"),
        (r"allow all TCP ports between the nodes \([^)]{0,120}\), set", "set"),
        (r", or a firewall(?: rejects it)?\b", ""),
        (r"(?:, |; )open (?:the port in )?the firewall(?: \([^)]{0,120}\))?", ""),
    ),
)  # fmt: skip

_SET = r"(?:NCCL|GLOO|UCX|FI|TORCH_NCCL)_[A-Z0-9_]{2,40} ?(?:=|to) ?\w[\w,.^-]{0,30}"
_STILL = r"(?:(?!unless|until|except|\bbut\b|\bonly\b|work|pass|\bfine\b|\bruns?\b|\bok\b|without)[^\n.;]){0,40}"
_IDLE = re.compile(
    rf"\b{_SET}\b[`'\")]{{0,3}}[,:]? (?:also |still |it )?(?:(?:does|do|did)(?: not|n't)|makes? no"
    r"|made no|has no|had no|no) (?:help|change|difference|effect|solve|fix|work|luck)"
    rf"|\b{_SET}\b[`'\")]{{0,3}}[,:]? {_STILL}\b(?:same (?:error|hang|problem|result)"
    r"|still (?:hangs?|fails?))"
    rf"|\b(?:also|even|still|same|hangs?|fails?|nothing)\b{_STILL} (?:with|after(?: setting)?|under) "
    rf"[`'\"]?{_SET}"
)
"""How people say that a setting has not helped."""
_NAME = re.compile(r"\b((?:NCCL|GLOO|UCX|FI|TORCH_NCCL)_[A-Z0-9_]{2,40}) ?(?:=|to )")
_MEANS = {
    "NCCL_IB_DISABLE": (
        (
            re.compile(r"it crashed, runs out of step (\([^)]{0,120}\)), or its network stands still"),
            r"it crashed or runs out of step \1. RDMA is not the reason, as it hangs without it",
        ),
        (re.compile(r"a rank did not join it, or the network stands still"), "a rank did not join it"),
    ),
}
"""What a setting without effect says of readings that do not name it."""
_CLAUSE = re.compile(r"(?<=[\w)])(?P<by>; |\. )")
_VALUE = r"=\w[\w,.^-]{0,30}"


def without_excluded(finding: Finding, texts: Sequence[Text]) -> Finding:
    """The finding, its title and cure without what the log excludes."""
    for row in _ROWS:
        if finding.name not in row.names or any(row.never.search(text.text) for text in texts):
            continue
        seen = next(_said(row, texts, finding), None)
        if seen is not None and _is_same_port(seen, finding):
            finding = _changed(finding, *_phrased(finding, row), seen)
    for text in texts:
        for found in islice(_IDLE.finditer(text.text), _MOST):
            for name in dict.fromkeys(_NAME.findall(found[0])):
                finding = _without_setting(finding, name, text.evidence(found.start()))
    return finding


def _without_setting(finding: Finding, name: str, seen: Evidence) -> Finding:
    title, fix = finding.title, finding.fix
    for old, new in _MEANS.get(name, ()):
        title, fix = old.sub(new, title), old.sub(new, fix)
    if name in fix:
        fix = _without(fix, name) or fix
    return _changed(finding, title, fix, seen)


def _said(row: _Excluded, texts: Sequence[Text], finding: Finding) -> Iterator[Evidence]:
    facts = " ".join(each.fact for each in finding.evidence)
    for text in texts:
        # A host that the words name must be one of the finding's.
        named = row.words.groupindex.get("host")
        found = next(
            (each for each in islice(row.words.finditer(text.text), _MOST) if not named or each["host"] in facts), None
        )
        if found is not None:
            yield text.evidence(found.start())


_PORT = re.compile(r"(?<![\d.])\d{4,5}(?![\d.]|\w)")


def _is_same_port(seen: Evidence, finding: Finding) -> bool:
    """Whether what was said names a port of the finding, or none at all."""
    theirs = set(_PORT.findall(" ".join((finding.title, *(each.fact for each in finding.evidence)))))
    mine = set(_PORT.findall(seen.fact))
    return not mine or not theirs or bool(mine & theirs) or finding.name in {"port-in-use", "memlock"}


def _phrased(finding: Finding, row: _Excluded) -> tuple[str, str]:
    title, fix = finding.title, finding.fix
    for old, new in row.phrases:
        plain = new.replace("\\", r"\\")
        title, fix = old.sub(plain, title), old.sub(plain, fix)
    return title, fix or finding.fix


def _changed(finding: Finding, title: str, fix: str, seen: Evidence) -> Finding:
    if (title, fix) == (finding.title, finding.fix):
        return finding
    return replace(finding, title=title, fix=fix, evidence=(*finding.evidence, seen))


def _without(fix: str, name: str) -> str:
    """The cure without the setting: its clause where it is all of that, else its place in a list of settings."""
    parts = _CLAUSE.split(fix)
    clauses, ends = parts[::2], [*parts[1::2], ""]
    kept = []
    for clause, end in zip(clauses, ends, strict=True):
        others = re.sub(rf"{name}{_VALUE}(?: \([^)]{{0,160}}\))?", "", clause)
        if others == clause:
            kept.append((clause, end))
        elif re.search(r"[A-Z]{2,8}_[A-Z0-9_]{2,40}=|--[a-z]", others):
            kept.append((_listed(clause, name), end))
    text = "".join(clause + end for clause, end in kept)
    return text[: -len(kept[-1][1])] if kept and kept[-1][1] else text


def _listed(clause: str, name: str) -> str:
    item = rf"{name}{_VALUE}(?: \([^)]{{0,160}}\))?"
    for words, other in ((rf"{item}, ", ""), (rf"(?:, | and,? (?:[a-z ]{{1,30}}, )?){item}", ""), (item, "")):
        if (shorter := re.sub(words, other, clause, count=1)) != clause:
            return shorter
    return clause
