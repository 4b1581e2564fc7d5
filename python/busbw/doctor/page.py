"""The page that one sends to a provider: each finding with its evidence, its cost, the cure and how to check it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from busbw.base.page import document
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.prove import Proven
from busbw.doctor.text import proof_text, summary
from busbw.doctor.verdict import Verdict
from busbw.importers.context import without_secrets

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h2{margin:1.6em 0 .3em;font-size:1.1em}.error{color:#a00}.warning{color:#850}.note{color:#046}
dt{font-weight:600;margin-top:.4em}dd{margin:0 0 0 1.5em}code{white-space:pre-wrap;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}.error{color:#f88}.warning{color:#fb6}.note{color:#8cf}}
"""


def page(facts: Facts, findings: Sequence[Finding], said: Verdict, proofs: Sequence[Proven] = ()) -> str:
    """The whole page; it loads nothing and runs nothing."""
    costs = {proof.finding.name: proof.sentence for proof in proofs if proof.finding is not None}
    parts = "\n".join(part for each in findings for part in _finding(each, costs.get(each.name)))
    taken = f"<p>Taken {_text(facts.snapshot.taken)}.</p>" if facts.snapshot.taken else ""
    title = f"busbw doctor: {without_secrets(said.outcome.text)}"
    body = f"""<h1>{_text(title)}</h1>
<p>{_text(summary(facts, findings))}</p>
{_list(said.seen) if said.seen else ""}
{taken}
{parts}
<h2>What was read</h2>
{_list(said.read)}
<h2>What was not seen</h2>
{_list(said.unread)}"""
    return document(title, _STYLE, body)


def _finding(finding: Finding, measured: str | None) -> Iterator[str]:
    severity = finding.severity.value
    title = f"{finding.name}: {finding.title}"
    yield f'<section><h2><span class="{severity}">{severity}</span> {_text(title)}</h2><dl>'
    if finding.severity is not Severity.NOTE:
        yield "<dt>Evidence</dt>"
        for each in finding.evidence:
            yield f"<dd>{_text(each.place)}: <code>{_text(each.fact)}</code></dd>"
    basis = f" ({finding.cost.basis})" if finding.cost.basis else ""
    yield f"<dt>Cost, expected</dt><dd>{_text(finding.cost.text + basis)}</dd>"
    if measured:
        yield f"<dt>Cost, measured</dt><dd>{_text(measured)}</dd>"
    yield f"<dt>Cure</dt><dd>{_text(finding.fix)}</dd>"
    yield f"<dt>How to check</dt><dd>{_text(proof_text(finding))}</dd>"
    if finding.known:
        yield f"<dt>Known from</dt><dd>{_text(finding.known)}</dd>"
    yield "</dl></section>"


def _list(sentences: Sequence[str]) -> str:
    return (
        "<ul>" + "".join(f"<li>{_text(each)}</li>" for each in sentences) + "</ul>" if sentences else "<p>Nothing.</p>"
    )


def _text(value: object) -> str:
    return escape(without_secrets(clean(value)))
