"""A node that is gone had the store by which the nodes of an elastic job find each other: none can start again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_STORE = re.compile(
    r"\brdzv[-_]endpoint['\"]?(?:\s{0,12}[:=]\s{0,4}|\s{1,4})['\"]?(?P<host>[A-Za-z0-9][\w.-]{0,100})(?::\d{2,5})?"
)
_C10D = re.compile(r"\brdzv[-_]backend['\"]?(?:\s{0,12}[:=]\s{0,4}|\s{1,4})['\"]?(?P<kind>\w{2,20})")
_FAILS = re.compile(
    r"RendezvousConnectionError|The connection to the C10d store has failed|failed to (?:send a keep-alive heartbeat"
    r"|shutdown) (?:to )?the rendezvous"
)
_GONE = re.compile(
    r"\b(?P<spot>Preempt\w{0,12}|Preemption\w{0,12}|SpotInterrupt\w{0,12})\s{1,12}node/(?P<a>[\w.-]{1,100})"
    r"|\b(?:NodeNotReady|DeletingNode|RemovingNode|NodeShutdown)\s{1,12}node/(?P<b>[\w.-]{1,100})"
    r"|\b(?:TaintManagerEviction|Preempt\w{0,12})\s{1,12}pod/(?P<pod>[\w.-]{1,100})"
    r"|\b[Ii]nstance '?(?P<c>[\w.-]{1,100})'? (?:was|is being|has been) (?P<spot_>preempted|reclaimed)"
    r"|\b[Nn]ode (?P<d>[\w.-]{1,100}) (?:was|is being|has been) (?P<spot__>preempted|reclaimed|lost|deleted)",
    re.MULTILINE,
)


def held_the_store(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The lost machine ran the pod, or is the host, of torchrun's rendezvous endpoint."""
    store = next(((text, one) for text in texts if (one := _STORE.search(text.text))), None)
    fails = next(((text, one) for text in texts if (one := _FAILS.search(text.text))), None)
    kind = next((one["kind"] for text in texts if (one := _C10D.search(text.text))), "c10d")
    if store is None or fails is None or not kind.startswith(("c10d", "static")):
        return None
    host = store[1]["host"].partition(".")[0]
    lost = [(text, found) for text in texts for found in _GONE.finditer(text.text)]
    node, where = _node_of(host, texts)
    names = {
        name for _, found in lost for name in (found["a"], found["b"], found["pod"], found["c"], found["d"]) if name
    }
    if not {host, node} & {name.partition(".")[0] for name in names} - {""}:
        return None
    spot = next(((text, one) for text, one in lost if one["spot"] or one["spot_"] or one["spot__"]), None)
    first = spot or lost[0]
    on = f" (node {named(node, 60)})" if node else ""
    took = "the cloud took back" if spot else "the job lost"
    return Sharper(
        f"{took} the machine of {named(host, 60)}{on}, which also had the rendezvous store (rdzv_endpoint): the other "
        "nodes cannot meet again, so that no restart and no smaller job can follow",
        "put the store on a machine that stays: a small on-demand pod or etcd (--rdzv-backend=etcd-v2, "
        "--rdzv-endpoint=that host). Or let the controller start all workers again (a PyTorchJob or JobSet that "
        "recreates its pods, its first worker on-demand by a nodeSelector). Save checkpoints often. Longer timeouts "
        "and more restarts do not help while the store is gone",
        (
            first[0].evidence(first[1].start()),
            store[0].evidence(store[1].start()),
            fails[0].evidence(fails[1].start()),
            *((where,) if where else ()),
        ),
    )


def _node_of(pod: str, texts: Sequence[Text]) -> tuple[str, Evidence | None]:
    """The node that `kubectl get pods -o wide` shows for that pod."""
    row = re.compile(
        rf"^{re.escape(pod)}\s{{1,40}}\d{{1,3}}/\d{{1,3}}\s{{1,24}}\w{{3,24}}"
        r"\s{1,24}\d{1,5}(?:\s\([^)\n]{1,24}\))?"
        r"\s{1,24}\S{1,12}\s{1,24}\S{1,48}\s{1,24}(?P<node>[\w.-]{3,100})",
        re.MULTILINE,
    )
    found = next(((text, one) for text in texts if (one := row.search(text.text))), None)
    return (found[1]["node"].partition(".")[0], found[0].evidence(found[1].start())) if found else ("", None)
