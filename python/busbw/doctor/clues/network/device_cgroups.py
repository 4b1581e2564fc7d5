"""A clue of RDMA devices that a container has in its folder and may not open: they were mounted, and not given."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_REFUSED = re.compile(
    r"(?P<dev>/dev/infiniband/\w{2,20})[^\n]{0,40}?(?:Operation not permitted|\bEPERM\b)"
    r"|(?:Operation not permitted|\bEPERM\b)[^\n]{0,20}?(?P<dev_>/dev/infiniband/\w{2,20})"
)
"""As dd, cat, Python and strace say it. The rights of the file give another error, Permission denied."""
_OPENED = re.compile(r"ibv_open_device failed|Unable to open device|Failed to open device|[Cc]ouldn't get context")
_MOUNTED = re.compile(
    r"(?P<how>(?:-v|--volume)[ =]/dev(?:/infiniband)?/?:/dev[\w/:,]{0,30}"
    r"|--mount[ =]\S{0,40}(?:source|src)=/dev/infiniband[\w/:,=]{0,60}"
    r"|\bhostPath: ?\{? ?\n?\s{0,40}path: ?[\"']?/dev/infiniband|\blxc\.mount\.entry ?= ?/dev/infiniband"
    r"|^\s{2,20}- [\"']?/dev/infiniband:/dev/infiniband(?=[^\n]{0,10}$))",
    re.MULTILINE,
)
_RUN = re.compile(r"\b(?:docker|podman|nerdctl) run (?:[^\n\\]|\\\n){4,1500}")
_GIVEN = re.compile(
    r"--device[ =]\S{0,20}/dev/infiniband|--privileged\b|privileged: ?true|--device-cgroup-rule|^\s{2,20}devices:|"
    r"lxc\.cgroup2?\.devices\.allow|\brdma/\w{2,40}: ?[\"']?\d",
    re.MULTILINE,
)


def refused_by_cgroup(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The device file is there, its rights allow all, and the kernel refuses to open it."""
    refused = next(((text, found) for text in texts if (found := _REFUSED.search(text.text))), None)
    mounted = next(((text, found) for text in texts if (found := _MOUNTED.search(text.text))), None)
    # How somebody says that --privileged is not allowed gives nothing: a command that has it does.
    runs = [found[0] for text in texts for found in _RUN.finditer(text.text)]
    given = any(_GIVEN.search(run) for run in runs) if runs else any(_GIVEN.search(text.text) for text in texts)
    opened = any(_OPENED.search(seen.fact) or _REFUSED.search(seen.fact) for seen in finding.evidence)
    if given or not opened or (refused is None and mounted is None):
        return None
    device = (refused[1]["dev"] or refused[1]["dev_"]) if refused else "/dev/infiniband/uverbs0"
    how = " ".join(mounted[1]["how"].split()) if mounted else ""
    by = f": the folder is only mounted ({named(how, 60)})" if how else ""
    return Sharper(
        f"the container has {device} and may not open it, by its cgroup of devices{by}: NCCL goes without RDMA",
        "give the devices themselves, on all hosts: docker or podman --device=/dev/infiniband in place of -v (compose: "
        "devices:), with --cap-add=IPC_LOCK. Or --device-cgroup-rule='c 231:* rwm' beside the mount. Kubernetes: the "
        "RDMA device plugin in place of hostPath; LXC: lxc.cgroup2.devices.allow. --privileged is not needed. The "
        "files' rights, memlock and rdma-core are right",
        tuple(text.evidence(found.start()) for text, found in (each for each in (refused, mounted) if each)),
    )
