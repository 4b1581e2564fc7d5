"""A library that is there on the other nodes, too: mpirun does not pass LD_LIBRARY_PATH on to them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LOST = re.compile(
    r"error while loading shared libraries: (?P<a>[\w.+-]{1,80})"
    r"|(?P<b>\w[\w.+-]{1,60}\.so[\w.]{0,20}): cannot open shared"
)
_STARTS = re.compile(
    r"^[^\n]{0,80}?(?:^|[\s$#>;])(?P<with>mpirun|mpiexec|mpiexec\.hydra|orterun|prterun)\s(?P<options>[^\n]{1,900})$",
    re.MULTILINE,
)
_OTHERS = re.compile(r"(?:^|\s)(?:--?hostfile|--?machinefile|-f|--?hosts?|-H|--?npernode|-N|-ppn|--map-by)\b|\bSLURM_")
_PASSES = re.compile(r"-x\s{0,2}LD_LIBRARY_PATH|-envall|-genvall|-genv(?:list)?\s[^\n]{0,60}LD_LIBRARY_PATH|--prefix\b")
_SET_HERE = re.compile(
    r"^[^\n]{0,80}\bLD_LIBRARY_PATH\b[^\n]{0,20}\n(?P<path>/[^\n]{1,300})$|\bexport LD_LIBRARY_PATH=", re.MULTILINE
)
_IS_EMPTY = re.compile(
    r"^[^\n]{0,60}\bssh \S{1,80} [^\n]{0,60}\$\{?LD_LIBRARY_PATH\b[^\n]{0,20}\n\W{0,4}$", re.MULTILINE
)
_HIGHEST = 12


def not_passed_by_mpirun(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """mpirun starts ranks on other nodes without -x LD_LIBRARY_PATH, and a list shows that the library exists."""
    for text in texts:
        lost, started = _LOST.search(text.text), _starts(text)
        if lost is None or started is None:
            continue
        name = lost["a"] or lost["b"]
        found = re.search(
            rf"^[^\n]{{0,200}}?(?P<path>(?:/[\w.+~-]{{1,80}}){{1,{_HIGHEST}}}/{re.escape(name)})"
            r"(?![^\n]{0,20}(?:cannot|No such))",
            text.text,
            re.MULTILINE,
        )
        here, empty = _SET_HERE.search(text.text), _IS_EMPTY.search(text.text)
        if found is None and here is None and empty is None:
            continue
        places: list[Evidence] = [text.evidence(each.start()) for each in (lost, found, here) if each is not None]
        there = f", though {named(found['path'], 100)} is there" if found else ""
        there += ", and LD_LIBRARY_PATH is empty on another node" if empty else ""
        return Sharper(
            f"{started['with']} does not pass LD_LIBRARY_PATH on to the other nodes (no -x LD_LIBRARY_PATH): ranks "
            f"there do not find {name}{there}",
            "mpirun -x LD_LIBRARY_PATH (and -x PATH where needed; Intel MPI and MPICH: -genvall). Or link the program "
            "with an rpath to it, or add its folder to /etc/ld.so.conf.d on all nodes and run ldconfig. Nothing has "
            "to be installed",
            (*places, text.evidence(started.start("with"))),
        )
    return None


def _starts(text: Text) -> re.Match[str] | None:
    """The command that starts ranks on several hosts and passes no path on."""
    for found in _STARTS.finditer(text.text):
        if _OTHERS.search(found["options"]) and not _PASSES.search(found["options"]):
            return found
    return None
