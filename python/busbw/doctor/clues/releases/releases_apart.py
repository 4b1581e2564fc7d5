"""Clues of NCCL's release on each host: by its lines, whose words changed, and by messages of another size."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_LINE = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[\d{1,3}\] (?:[\w/.-]{3,60}:\d{1,5} )?NCCL "
    r"(?:INFO|WARN) (?P<said>[^\n]{4,400})"
)
_VERSION = re.compile(r"^NCCL version (?P<version>2\.\d{1,2}\.\d{1,2})\b")
_FORMS = (
    (
        re.compile(r"^comm 0x\S{4,20} rank \d{1,7} nranks \d[^\n]{0,120}Init START"),
        re.compile(r"^(?:\[Rank \d{1,7}\] )?ncclCommInit\w{2,30} comm 0x\S{4,20} rank \d[^\n]{0,140}Init START"),
        "2.21",
    ),
    (
        re.compile(r"^NET/Plugin : (?:dlerror|No plugin found|Plugin load)"),
        re.compile(r"^NET/Plugin: (?:No plugin found|Could not find)"),
        "2.21",
    ),
    (re.compile(r"^Bootstrap : Using"), re.compile(r"^Bootstrap: Using"), "2.24"),
    (re.compile(r"^Bootstrap : Using \[0\]"), re.compile(r"^Bootstrap ?: Using (?!\[)"), "2.8"),
)
"""The older and the newer wording of one line, and the release that brought the newer one."""
_SIZES = re.compile(r"Message truncated : received (?P<got>\d{1,9}) bytes instead of (?P<want>\d{1,9})")
_BEHIND = re.compile(r"NCCL INFO (?P<file>[\w/]{2,40}\.(?:cc|h)):\d{1,5} -> \d")
_LEAST = 32
"""Bytes of what a rank tells of itself."""
_FRAMES = 6
_COUNTS = "one process counts "
"""How the finding of ranks that count apart begins."""
_PACKAGE = re.compile(
    # dpkg -l, rpm -qa, pip list, pip show.
    r"^(?:ii {1,4}libnccl2(?::\w{1,8})? {1,20}|libnccl-|nvidia-nccl-cu1\d {1,20}|nvidia-nccl-cu1\d==)"
    r"(?P<version>2\.\d{1,2}\.\d{1,2})\b",
    re.MULTILINE,
)
_MOST_PACKAGES = 64
_FAR = 2000
CURE = (
    "install the same NCCL on all hosts, or start all from one image. See which one each loads (NCCL_DEBUG=VERSION on "
    "each host, ldd of the program, LD_LIBRARY_PATH, dpkg -l libnccl2, pip show nvidia-nccl-cu12). Then build "
    "nccl-tests against it. The network is right"
)


def releases_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The hosts' lines are of different releases, or they exchange structures of different sizes at the start."""
    sizes = next(((text, found) for text in texts if (found := _SIZES.search(text.text))), None)
    told, seen = _by_lines(texts)
    if sizes is None or not (told or _is_of_init(*sizes)):
        return None
    got, want = sizes[1]["got"], sizes[1]["want"]
    return Sharper(
        f"{'the hosts run' if told else 'hosts or ranks run'} different releases of NCCL{told}: what each tells of "
        f"itself at the start has {got} bytes on one side and {want} on the other",
        CURE,
        (*seen, sizes[0].evidence(sizes[1].start())),
    )


def counts_by_releases(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks count each other apart at NCCL's own bootstrap, as their hosts' releases send other messages there."""
    if not finding.title.startswith(_COUNTS):
        return None
    told, seen = _by_packages(texts)
    if not told:
        told, seen = _by_lines(texts)
    if not told:
        return None
    return Sharper(
        f"the hosts run different releases of NCCL{told}, and miscount the ranks as they do not understand each "
        "other's first messages",
        f"{CURE}. The launcher's counts are not at fault",
        seen,
    )


def _by_packages(texts: Sequence[Text]) -> tuple[str, tuple[Evidence, ...]]:
    """The releases that are installed on two hosts, by the prompt over each list."""
    found: dict[str, tuple[str, Evidence]] = {}
    for text in texts:
        for each in list(_PACKAGE.finditer(text.text))[:_MOST_PACKAGES]:
            if host := host_before(text, each.start()):
                found.setdefault(host, (each["version"], text.evidence(each.start())))
    if len({version for version, _ in found.values()}) < 2:
        return "", ()
    rows = list(found.items())[:4]
    told = ", ".join(f"{version} on {named(host, 40)}" for host, (version, _) in rows)
    return f" ({told})", tuple(at for _, (_, at) in rows)


def _by_lines(texts: Sequence[Text]) -> tuple[str, tuple[Evidence, ...]]:
    """By host what its lines tell, as a title says it, and these lines; "" where they do not differ."""
    versions: dict[str, tuple[str, Evidence]] = {}
    forms: list[defaultdict[str, dict[bool, Evidence]]] = [defaultdict(dict) for _ in _FORMS]
    for text in texts:
        for found in _LINE.finditer(text.text):
            host, said = found["host"], found["said"]
            if (version := _VERSION.match(said)) is not None:
                versions.setdefault(host, (version["version"], text.evidence(found.start())))
            for form, (old, new, _) in zip(forms, _FORMS, strict=True):
                for is_new, words in ((False, old), (True, new)):
                    if words.match(said) and is_new not in form[host]:
                        form[host][is_new] = text.evidence(found.start())
    if len({version for version, _ in versions.values()}) > 1:
        rows = list(versions.items())[:4]
        told = ", ".join(f"{version} on {named(host, 40)}" for host, (version, _) in rows)
        return f" ({told})", tuple(at for _, (_, at) in rows)
    for form, (_, _, since) in zip(forms, _FORMS, strict=True):
        before = next((host for host, each in form.items() if set(each) == {False}), None)
        behind = next((host for host, each in form.items() if set(each) == {True}), None)
        if before is None or behind is None:
            continue
        newer = versions[behind][0] if behind in versions else f"{since} or newer"
        older = versions[before][0] if before in versions else f"an older one than {since}"
        told = f" ({newer} on {named(behind, 40)}, {older} on {named(before, 40)} by the words of its lines)"
        return told, (form[before][False], form[behind][True])
    return "", ()


def _is_of_init(text: Text, found: re.Match[str]) -> bool:
    """Whether the message is of the first exchange of all ranks, which no setting and no call of a program sizes.

    Structures of two releases have nearly the same size; messages of two communicators that are mixed up have any.
    """
    small, large = sorted((int(found["got"]), int(found["want"])))
    if small < _LEAST or large >= 2 * small:
        return False
    files = [
        frame["file"].rpartition("/")[2]
        for frame in list(_BEHIND.finditer(text.text, found.end(), found.end() + _FAR))[:_FRAMES]
    ]
    return "bootstrap.cc" in files and "init.cc" in files and not {"transport.cc", "net.cc", "p2p.cc"} & set(files)
