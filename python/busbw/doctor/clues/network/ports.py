"""Clues of ports: which ones a firewall lets through, and who holds the one that is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.network.between_hosts import ANSWERS
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_NO_ANSWER = re.compile(
    r"socket(?:Poll|Start)Connect: [Cc]onnect to (?P<host>\d{1,3}(?:\.\d{1,3}){3})<(?P<port>\d{4,5})> "
    r"(?:returned|failed ?:|[^\n]{0,30}) ?Connection timed out"
)
_RULE = re.compile(
    r"\"FromPort\": ?(?P<a>\d{1,5}), ?\"ToPort\": ?(?P<b>\d{1,5})"  # AWS
    r"|\bfrom_port\s{0,12}= ?(?P<c>\d{1,5})\s{1,24}to_port\s{0,12}= ?(?P<d>\d{1,5})"  # Terraform
    r"|\bdpts?:(?P<e>\d{1,5})(?::(?P<f>\d{1,5}))?\b|--dport (?P<g>\d{1,5})(?::(?P<h>\d{1,5}))?\b"  # iptables
    r"|^(?P<i>\d{1,5})(?::(?P<j>\d{1,5}))?/tcp\s{1,30}ALLOW\b"  # ufw
    r"|\btcp(?: dport|:) ?(?P<k>\d{1,5})(?:-(?P<l>\d{1,5}))?\b(?:[^\n]{0,40}\baccept\b)?",  # nftables, Google Cloud
    re.MULTILINE,
)
"""A rule that admits one port or a range of them."""
_ALL_FROM = re.compile(r"^\s{0,4}(?:\[ ?\d{1,3}\] )?Anywhere\s{2,40}ALLOW(?: IN)?\s{2,20}\d", re.MULTILINE)
"""A rule of ufw that admits all ports from a network."""
_DENIES = re.compile(r"\b(?:DROP|REJECT|DENY|drop|reject|deny)\b")
_MOST_RULES, _OFTEN = 64, 2
_OPEN = (
    "open all TCP ports between the nodes, not only the master's. In a cloud a rule of the security group admits all "
    "traffic from the group itself; on hosts firewall-cmd --zone=trusted --add-source, or ufw allow from. NCCL "
    "listens on ports that the system chooses; else limit net.ipv4.ip_local_port_range and open that range"
)


def blocked_ports(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL's connections to a port that the system chose get no answer, as it tries them again and again."""
    for text in texts:
        if (asked := _NO_ANSWER.search(text.text)) is None:
            continue
        port, host = int(asked["port"]), asked["host"]
        rules = [] if any(_ALL_FROM.search(each.text) for each in texts) else list(_rules(texts))
        admitted = [rule for rule in rules if not rule[0] <= port <= rule[1]]
        answers = next(
            ((each, found) for each in texts for found in ANSWERS.finditer(each.text)
             if (found["host"] or found["host_"]) == host and (found["port"] or found["port_"]) != asked["port"]), None
        )  # fmt: skip
        by, seen = "", [text.evidence(asked.start())]
        if admitted and len(admitted) == len(rules):
            said = list(dict.fromkeys(_range(*rule[:2]) for rule in admitted))
            by = f" (port{'s' * (len(said) > 1)} {', '.join(said[:4])})"
            seen.append(admitted[-1][2])
        elif answers is not None:
            by = f" ({answers[1]['port'] or answers[1]['port_']} is open)"
        if answers is not None:
            seen.append(answers[0].evidence(answers[1].start()))
        who = f"NCCL's connections to port {port} of {host} get no answer"
        if not by and (finding.name == "connection-timeout" or len(_NO_ANSWER.findall(text.text)) < _OFTEN):
            return None
        fix = _OPEN if by else f"{_OPEN}. Or set NCCL_SOCKET_IFNAME to the interface that the nodes share"
        title = (
            f"a firewall or security group between the nodes lets only named ports through{by}: {who}"
            if by
            else f"{who}: a firewall or security group drops them, or the interface is wrong"
        )
        return Sharper(title, fix, tuple(seen))
    return None


def _rules(texts: Sequence[Text]) -> Iterator[tuple[int, int, Evidence]]:
    """First port, last port and line of each rule that admits some."""
    count = 0
    for text in texts:
        for found in _RULE.finditer(text.text):
            count += 1
            if count > _MOST_RULES:
                return
            if _DENIES.search((seen := text.evidence(found.start())).fact):
                continue
            ports = [int(each) for each in found.groups() if each]
            # No port is 0: Terraform and AWS say so of a rule for all traffic (protocol -1).
            if ports[-1] == 0:
                continue
            yield ports[0], ports[-1], seen


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


_HOLDS = re.compile(
    r"(?m)^(?:> ?){0,3}(?:tcp6?\s[^\n]{0,40}\s)?LISTEN\b[^\n]{0,120}?[\]*\d]:(?P<port>\d{1,5})\b[^\n]{0,120}?"
    r"users:\(\(\"(?P<name>[^\"\n]{1,40})\",pid=(?P<pid>\d{1,9})"
)
_LAUNCHERS = re.compile(r"torchrun|accelerate|deepspeed")
_OTHER_JOB = re.compile(r"\bSlurm JobId (?P<job>\d{1,12}) ends at\b")
_OWN_JOB = re.compile(r"\b(?:StepId=|JobId=|[Jj]ob |slurm-)(?P<job>\d{2,12})\b")


def holder_of_port(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Who listens on the port, as `ss -ltnp`, `ps` and `scontrol pidinfo` show it."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    for text in texts:
        for found in _HOLDS.finditer(text.text):
            if not re.search(rf"\b{found['port']}\b", said):
                continue
            row = process_row(text, found["pid"])
            seen = [text.evidence(found.start()), *([text.evidence(row.start())] if row else [])]
            who = f"{named(row['cmd'] if row else found['name'])} (pid {found['pid']})"
            launcher = _LAUNCHERS.match(found["name"])
            other = _OTHER_JOB.search(text.text)
            # A job's own number stands in what its launcher says: another one is another user's or another job's.
            ended = re.search(rf"StepId={other['job']}\b", text.text) if other else None
            if other is not None and ended is None and any(
                each["job"] != other["job"] for each in _OWN_JOB.finditer(text.text)
            ):  # fmt: skip
                return Sharper(
                    f"the port ({found['port']}) is taken by another job on that node: Slurm job {other['job']}, {who}",
                    "take a port of its own for each job: MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000)), or torchrun "
                    "--standalone (--rdzv-endpoint=HOST:0) on one node. Or ask for whole nodes (--exclusive). Do not "
                    "end the process: it is another job's",
                    (*seen, text.evidence(other.start())),
                )
            if (user := _of_another_user(row, texts)) and row is not None:
                taken = f"the port ({found['port']}) is taken by {who} of user {named(user, 32)},"
                return _of_another_job(taken, tuple(seen))
            if launcher and (runs := _runs_well(texts)) is not None:
                return _of_another_job(f"the port ({found['port']}) is taken by {who}, the launcher of", (*seen, runs))
            return Sharper(
                f"the port ({found['port']}) is taken by {who}{', a launcher of an earlier run' if launcher else ''}",
                f"where that is a left-over of this job, end it (kill {found['pid']}"
                f"{', and its ranks, which hold GPU memory' if launcher else ''}); where it is another job's, take "
                "another port (torchrun --master-port, MASTER_PORT=29501; --standalone for one node)",
                tuple(seen),
            )
    # Nobody looked who holds it, and the one who asks tells of the other job.
    if finding.title.startswith("the port") and (runs := _runs_well(texts)) is not None:
        return _of_another_job(f"{finding.title.partition(' is taken')[0]} is taken by", (runs,))
    return None


_OWN_USER = re.compile(
    r"/home/(?!(?:shared?|data|users?|conda|work|proj\w{0,6}|group|lab|team)\b)(?P<home>[a-z][\w.-]{0,31})/"
    r"|^\[?(?:\([\w.-]{1,40}\) )?(?P<prompt>[a-z][\w.-]{0,31})@[\w.-]{1,60}[: ][^\n]{0,60}[$#] ",
    re.MULTILINE,
)
"""Whose job the log tells of: the home of its program, and the prompt."""


def _of_another_user(row: re.Match[str] | None, texts: Sequence[Text]) -> str:
    """The user of that process, where it is none of those whose program the log shows; "" for no other one."""
    user = (row.groupdict().get("user") or "") if row is not None else ""
    own = {found["home"] or found["prompt"] for text in texts for found in islice(_OWN_USER.finditer(text.text), 2000)}
    # Long names are cut, and root looks at everybody's; ps may show its own user's name as a number.
    others = own - {"root"}
    if not user or user in {"root", "ubuntu", "ec2-user"} or not others:
        return ""
    return "" if any(each[:7] == user.rstrip("+")[:7] for each in others) else user


def _of_another_job(who: str, seen: tuple[Evidence, ...]) -> Sharper:
    return Sharper(
        f"{who} another job of this host, which runs: both use the same port",
        "give each job a port of its own: torchrun --master-port 29501 (MASTER_PORT; accelerate --main_process_port, "
        "deepspeed --master_port). Or --rdzv-backend=c10d with --rdzv-endpoint=localhost:0 on one host, which takes a "
        "free one. Leave the other job alone: it is no left-over",
        seen,
    )


_RUNS = re.compile(
    r"\b(?:first|other|another|previous|1st|old(?:er)?|my|one|running|same)\b[^\n.]{0,40}?"
    r"\b(?:one|job|run|training|experiment|process|model|finetun\w{1,4}|script)s?\b[^\n.]{0,60}?"
    r"\b(?:is|are|keeps?|still|already|which|that)\b[^\n.]{0,20}?\b(?:runn?(?:ing|s)|train(?:ing|s)|going on|fine|ok)\b"
    r"|\b(?:while|during|alongside|next to|beside|at the same time as)\b[^\n.]{0,30}?\b(?:first|other|another)\b"
    r"[^\n.]{0,20}\b(?:one|job|run|training|experiment)\b"
    r"|\b(?:colleague|co-?worker|team ?mate|lab ?mate|(?:an)?other user|some(?:one|body) else)\b[^\n.]{0,20}"
    r"\b(?:runs?|running|trains?|training|uses?|using)\b[^\n.]{0,40}"
    r"\b(?:GPUs?|(?:same|this) (?:node|machine|box|server|host))\b"
    r"|\b(?:second|2nd|another|two|both) (?:\w{1,12} )?(?:jobs?|runs?|trainings?|experiments?)\b[^\n.]{0,60}\b"
    r"(?:same|one|this) (?:node|machine|box|host|server|workstation)\b",
    re.IGNORECASE,
)
"""How people tell that another job of theirs works on that host."""
_NOT_ANY_MORE = re.compile(
    r"\b(?:no|not|n't|nothing|none|never|without|any|if|whether|unless|killed|crashed|died|ended|stopped|was|were|before"
    r"|longer|anymore)\b|n't\b",
    re.IGNORECASE,
)
"""What says around it that none does."""
_AROUND = 24


def _runs_well(texts: Sequence[Text]) -> Evidence | None:
    """The line that tells of another job on that host, which runs."""
    for text in texts:
        for found in _RUNS.finditer(text.text):
            front = text.text[max(0, found.start() - _AROUND) : found.start()].rpartition("\n")[2]
            rear = re.split(r"[.,;\n]", text.text[found.end() : found.end() + 3 * _AROUND], maxsplit=1)[0]
            if _NOT_ANY_MORE.search(f"{front}{found[0]}{rear}") is None:
                return text.evidence(found.start())
    return None


def process_row(text: Text, pid: str) -> re.Match[str] | None:
    """The row of `ps` that tells of that process: its numbers or its user, and its command."""
    row = re.compile(
        rf"^\s{{0,12}}(?:(?P<user>[a-z][\w.-]{{0,31}})\s{{1,12}})?{pid}\s{{1,20}}(?:(?P<ppid>\d{{1,9}})\s{{1,20}})?"
        r"(?P<rest>[^\n]{0,120}?\d\d:\d\d:\d\d(?: \d{4})?\s{1,12}(?:[A-Z][A-Za-z<+]{0,4}\s{1,8})?)?"
        r"(?P<cmd>[A-Za-z/][^\n]{2,200})$",
        re.MULTILINE,
    )
    # `ps -p PID` with columns of one's own, which need not repeat the number.
    alone = re.compile(
        rf"\bps [^\n]{{0,80}}-p ?{pid}\b[^\n]{{0,80}}\n\s{{0,12}}USER\b[^\n]{{0,120}}\n\s{{0,12}}"
        r"(?P<user>[a-z][\w.+-]{0,31})\s{1,12}(?P<rest>[^\n]{0,120}?\d\d:\d\d:\d\d(?: \d{4})?\s{1,12})?"
        r"(?P<cmd>[A-Za-z/][^\n]{2,200})$",
        re.MULTILINE,
    )
    return row.search(text.text) or alone.search(text.text)
