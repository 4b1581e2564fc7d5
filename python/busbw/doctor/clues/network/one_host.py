"""Whether logs show a job whose ranks are all on one host, though its init did not end there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence
from busbw.doctor.shown_texts import Text

OF_RDMA = frozenset({"libibverbs-missing", "ib-disabled"})
"""What only ranks of several hosts have a need of."""
_ONE = re.compile(
    r"--nnodes[= ]1(?![\d:])|--standalone\b|--num[-_](?:nodes|machines)[= ]1\b|\bnNodes 1\b|\bnnodes=1, num_local_procs"
    r"|\b(?:torchrun|torch\.distributed\.(?:run|launch))\b(?![^\n]{0,400}--nnodes)[^\n]{0,200}--nproc[-_]per[-_]node"
    # A launcher that is given this host alone.
    r"|\b(?:mpirun|mpiexec|horovodrun|prterun)\b[^\n]{0,200}?\s(?:-H|--?hosts?)[ =](?:localhost|127\.0\.0\.1)"
    r"(?::\d{1,3})?(?=\s|$)"
    # As jax.print_environment_info() says it.
    r"|^process_count: 1\s{0,4}$"
    r"|\bDuplicate GPU detected ?: rank [01] and rank [01] both\b"
    r"|^[^\n]{0,120}[$#] ?(?:[A-Z_]{2,40}=\S{1,80} ){0,6}(?:\./)?(?:build/)?\w{4,20}_perf [^\n]{0,120}-g ?[1-9]",
    re.MULTILINE,
)
"""How a launcher is told that there is one, or by saying nothing means it; the first ranks on one GPU; a benchmark that
nobody launches."""
_SEVERAL = re.compile(
    r"--nnodes[= ](?:[2-9]|1[\d:]|\$)|\bnNodes (?:[2-9]|\d\d)|\s-N ?[2-9]\b|--nodes[= ](?:[2-9]|\d\d)|host-?file\b"
    r"|--node[-_]rank[= ][1-9]|--num[-_](?:nodes|machines)[= ](?:[2-9]|\d\d)|\bNNODES=(?:[2-9]|\d\d)"
    r"|(?:^|\s)(?:-H|--host) \S{1,80},\S|--dist-init-addr|\b(?:[2-9]|two|four|eight) (?:nodes|hosts|machines)\b"
)


def on_several(texts: Sequence[Text]) -> bool:
    """Whether a command or somebody's words tell of several hosts."""
    return any(_SEVERAL.search(text.text) for text in texts)


def on_one_host(facts: Facts, texts: Sequence[Text]) -> Evidence | None:
    """The line by which all ranks are on one host; None where they may be on several, or nothing tells."""
    known = [each for log in facts.logs for each in log.communicators]
    hosts = {host for each in known for host in each.hosts if host}
    hosts |= {host for log in facts.logs for host in log.networks if host}
    hosts |= {each.where.partition(" ")[0] for log in facts.logs for each in log.warnings if " " in each.where}
    if not hosts and not facts.several_nodes and (alone := _over_loopback(texts)) is not None:
        return alone
    if len(hosts) != 1 or facts.several_nodes or on_several(texts):
        return None
    whole = any(each.ranks and len(each.ranks) == each.nranks for each in known)
    for text in texts:
        if (found := _ONE.search(text.text)) is not None:
            return text.evidence(found.start())
        if whole and (at := text.text.find(" Init START")) >= 0:
            return text.evidence(at)
    return None


_LOOPBACK = re.compile(r"NCCL INFO Bootstrap ?: ?Using (?:\[0\])?lo:127\.")
_OTHER_BOOTSTRAP = re.compile(r"NCCL INFO Bootstrap ?: ?Using (?!(?:\[0\])?lo:127\.)")
_MET = re.compile(r"\bnranks (?:[2-9]|\d{2,6})\b[^\n]{0,120}Init COMPLETE")


def _over_loopback(texts: Sequence[Text]) -> Evidence | None:
    """Ranks that met over the loopback interface are on one host, though no line names it."""
    if any(words.search(text.text) for text in texts for words in (_OTHER_BOOTSTRAP, _SEVERAL)):
        return None
    if not any(_MET.search(text.text) for text in texts):
        return None
    return next((text.evidence(found.start()) for text in texts if (found := _LOOPBACK.search(text.text))), None)
