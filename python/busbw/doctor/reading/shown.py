"""Lines of logs that show more than a job says: output of commands, tables of people's own, NCCL's view of a machine.

They are kept as they stand, so that findings can lay them beside each other: a port beside the same port of other
hosts, a pair of hosts beside other pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice

from busbw.base.effort import EFFORT
from busbw.base.errors import UserError
from busbw.base.typography import uncoloured
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.triggers import TriggerIndex, alternatives, triggers_of
from busbw.doctor.reading.read_logs import lines_of, restored_lines
from busbw.doctor.reading.snapshot import TextFile

MOST_LOGS, MOST_LINES, MAX_LINE = 32, 20_000, 1000
MOST_LETTERS = 2_000_000
"""Of all logs together: findings look at each line several times."""
_PER_LINE = 3
"""Of what a call may spend."""


_TELLING = (
    r"bytes of data|packets transmitted|\bpmtu \d|> mtu \d|\bCA '|\bhca_id:|\b[Rr]ate: |\bDEBUG=1\b"
    r"|\bnvcc .{0,400} -G\b"
    r"|^\s{0,8}\d{1,10}\s+\d{1,9}\s+[\d.]{1,12}\s+[\d.]{1,12}\s+[\d.]{1,12}\s*$|\d ?(?:[GM]i?B/s|Gb/s|Gbps|TFLOP)"
    r"|\bosu_\w|\bOSU MPI|^\d{5,10}\s{1,40}\d{1,7}\.\d{1,4}\s*$|^#\s?Send Buffer on"
    r"|\dMiB \|\s*$|^\s{1,8}\d{1,3}\s{1,12}\d{1,9}\s{1,8}C\b|\bpid\s{1,8}type\b"
    r"|Cpus_allowed_list|affinity list: |%Cpu\d|\bOverSubscribe=|^Average: |\bbatch-generator |MainThread|_next_data"
    r"|file_baton|filelock/_|fcntl\.(?:flock|lockf)|lock_inode_wait|not acquired on|\bbarrier \(|in barrier\b"
    r"|\bdefault_limit\b|\bPower Limit\b|_prio\d_|^\s{1,8}enabled\s+[01] |\bBER\b|\b(?:spine|uplink)\S{0,12}\s.{0,80}%"
    r"|\b(?:wait|load|get|next|fetch)_(?:batch|data)\b|\b(?:batch|data|input)_(?:wait|load|fetch)"
    r"|\bnext\(\)\W{1,4}\d|\b(?:num_|loader )workers ?[=: ] ?0\b"
    r"|\b(?:ids|indices|idxs?|samples|examples)[ =:]{1,3}[\[(]\d"
    r"|\bms(?: per |/)step\b"
    r"|\bendpoint\s{1,12}: (?:127\.0|localhost)|\bLISTEN\b|\bLocal node IP: 127\.|\bon (?:https?://)?(?:127\.0\.0\.1|localhost):\d"
    r"|Infiniband device '|==> \S{1,20} \(Up\)|\bar_sl_mask\b|\bBW average\["
    r"|_reasons\.active\b|\bPower Brake\b|cpus-per-task|CPUs/Task|suggested max number of"
    r"|\brank\W{1,2}0(?:/| (?:out )?of )1\b|\bprocess 0 of 1\b|\bworld[_ ]size\W{1,3}1\b|\bwaiting for data\b"
    r"|\bbound to (?:socket|package)|hwloc_base_binding_policy|\bbind-to (?:core|hwthread)"
    r"|\bdata(?:_time)?\b\W{1,4}\d|^\W{0,4}GPU\d{1,2}\s|\bRTX [45]0(?:\d0\b|00 series)|\b(?:intel|amd)_iommu="
    r"|\bethtool \w|\w_perf\b|\bloss\W{1,4}[+-]?(?:nan|inf)\b|!{8}|\bp2p[- ](?:fork|patch|driver)|\bpatched\b"
    r"|^\s{1,20}\d{1,14}\s{1,14}\d{1,14}\s{1,12}[a-z]\w{1,12}\s{1,12}[a-z]\w{1,12}\s"
    r"|\bSpeed: \d{2,6}Mb/s|cuda graph addresses|\bcustom_all_reduce"
    r"|\blladdr [0-9a-f]{2}:|\bLnk(?:Cap|Sta):|\bmrlen \d|\bRemapping Failure\b|\bNODE_GUID\b"
    # /proc/net/bonding/NAME.
    r"|/proc/net/bonding/\w"
    r"|^Bonding Mode: |\bAggregator I(?:D|nfo)\b|^Slave Interface: |^MII Status: |\bpartner lacp pdu\b"
    r"|^\s{1,12}system mac address: "
    # Where settings may come from that no command names.
    r"|\bnccl\.conf\b"
    # The output of `ray status`.
    r"|\bplacement groups\b|^\W{0,4}(?:Active|Healthy|Idle|Pending|(?:Total )?Usage|Demands):\s*$|^ {1,8}\d{1,5} node_"
    r"|^ {1,8}[\d.]{1,12}/[\d.]{1,12} [CG]PU\b"
    # Stacks, as py-spy and faulthandler print them.
    r"|^Process \d{1,9}: |^\s{4}[\w<>]{1,60} \([\w./<>-]{1,160}\.py:\d|\(most recent call first\)"
    # Who passes without P2P says so.
    r"|\bNCCL_P2P_(?:DISABLE=1|LEVEL=LOC)\b"
    # What stands before ranks that wait apart.
    r"|\btrain_runtime\b|\bis ready now\b|\bException ignored in\b|^\W{0,4}rank {1,6}\d{1,6} = (?:nan|inf|\d)"
    r"|\b(?:ckpt|checkpoint|save)\w{0,12}interval_\w{0,12}(?:minutes|seconds)\b|\bCUDA_VISIBLE_DEVICES\b"
    # How large a job is, and what stands between it and CUDA.
    r"|--(?:nnodes|num_processes|num_machines)[= ]\d|\bprocess_count: \d|\bHAM[iI]\b|\blibvgpu\.so\b"
    # Where ranks were to meet, what PMIx lacks, and the address that mpirun gives to its daemons.
    r"|\b(?:min_nodes|rdzv_endpoint)\s{1,12}: |\b(?:Framework|Component): {1,3}\w|;tcp://172\.17\.|: bad address '"
    r"|\bsrun .{1,300}\b(?:mpirun|mpiexec)\b|\(\d.{6,14}:\d{1,5}\) open$|\] INFO NET : Using |\] INFO \d.{1,12}\] -> "
    r"|^\|\s{1,6}\d{1,3}\s[^|]{3,60}\|[^|]{12,40}\|\s{4,24}[1-9]\d{0,9}\s{0,4}\|"
    # The system that a task of a container sees.
    r"|\bPRETTY_NAME=|\bsrun .{1,400}--container-(?:image|name)"
    # Figures of one job on few and on many GPUs, and what stands over them.
    r"|\w_per_sec\W{1,3}\d|\b(?:n_gpus|num_nodes)\W{1,2}\d"
    r"|^\W{0,8}(?:one|single|two|four|eight|\d{1,4})[ -](?:GPUs?|nodes?)\b"
    # What was set up beside a job: lists of packages, firmware, OFED's tree, bridges, ports without address.
    r"|\bUnsupported distribution!|\bMES feature version|firmware\S{0,20} \(\d.{3,60}[,>] ?\d"
    r"|^\s{0,8}(?:Upgraded?|Replaced) .{0,30}firmware"
    r"|\bdefault -> \S|\bhostNetwork\b|^(?:ib\w{1,12}|virbr\d|docker0) .{0,16}\b(?:UP|DOWN)\b|\bSlingshot\b"
    # A value of which NCCL may make something else than meant.
    r"|\bNCCL_[A-Z0-9_]{3,50}=[\"']?(?:\d{1,9}[a-z]|true|false|yes|no|on|off)\b"
)


@lru_cache(maxsize=1)
def _kinds() -> tuple[tuple[str, ...], frozenset[int], TriggerIndex]:
    """The expressions of telling lines, those that ask for no word, and the index of the others' words.

    One expression of all of them is tried at each letter: 1.6 ms for a line of a thousand.
    """
    kinds = tuple(alternatives(_TELLING))
    words = [triggers_of(each) for each in kinds]
    wordless = frozenset(number for number, each in enumerate(words) if not each)
    return kinds, wordless, TriggerIndex(words)


@cache
def _kind(number: int) -> re.Pattern[str]:
    return re.compile(_kinds()[0][number], re.IGNORECASE)


def is_telling(line: str) -> bool:
    """Whether findings may look at the line: a bundle keeps it."""
    line = line[:MAX_LINE]
    _, wordless, index = _kinds()
    return any(_kind(number).search(line) for number in (*wordless, *index.of(line.lower())))


@dataclass(frozen=True, slots=True)
class Shown:
    """The lines of one log, from its first on."""

    source: str
    lines: tuple[str, ...]


def _up_to(letters: int, lines: Iterable[str]) -> Iterator[str]:
    for line in islice(lines, MOST_LINES):
        yield (said := uncoloured(line[:MAX_LINE]).rstrip())
        letters -= len(said)
        if letters < 0:
            return


def read_shown(files: Sequence[TextFile], scans: Sequence[Scan]) -> tuple[Shown, ...]:
    """The lines of those logs in which the scan met such output, or an error or start that it may explain."""
    telling = [
        file
        for file, scan in zip((each for each in files if each.text is not None or not each.why), scans, strict=True)
        if scan.kinds["shown"] or scan.hits or (scan.began[0] and not (scan.alive or scan.ended))
    ]
    found, left = [], MOST_LETTERS
    for file in telling[:MOST_LOGS]:
        if EFFORT.is_spent:
            break
        try:
            if (restored := restored_lines(file)) is not None:
                kept = list(_up_to(left, (line.decode("utf-8", "replace") for _, line in restored)))
            else:
                with lines_of(file) as lines:
                    kept = list(_up_to(left, lines))
        except UserError:
            continue
        left -= sum(map(len, kept))
        EFFORT.spend(_PER_LINE * len(kept))
        found.append(Shown(file.path, tuple(kept)))
    return tuple(found)
