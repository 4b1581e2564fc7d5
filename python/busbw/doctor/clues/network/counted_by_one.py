"""A clue of one NIC that loses packets: its RDMA counters are large where those of all others of the host are zero."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_LOSSES = r"local_ack_timeout_err|packet_seq_err|out_of_sequence|roce_adp_retrans|rnr_nak_retry_err"
_ASKS = re.compile(rf"hw_counters[^\n]{{0,300}}\b(?:{_LOSSES})\b")
"""A command that prints counters of lost packets, device by device."""
_ROW = re.compile(
    r"^(?P<dev>[a-z]\w{2,20})(?:/\d{1,2})?:?(?P<counts>(?:[ \t]{1,8}\d{1,18}){1,12})[ \t]*$", re.MULTILINE
)
_HCA = re.compile(r" hca (?P<dev>\w{3,20})")
_BITS = re.compile(
    r"\b(?P<name>rx_crc_errors_phy|rx_symbol_err_phy|rx_pcs_symbol_err_phy|symbol_error|SymbolErrorCounter)"
    r"\W{1,30}(?P<n>\d{3,18})\b"
)
_FAR = 4000
"""Letters after the command in which its rows stand."""
_MANY = 100
_FEWEST = 3


def one_that_counts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The NIC of the error is the only one of its host that counts lost packets."""
    failed = {found["dev"] for seen in finding.evidence if (found := _HCA.search(seen.fact))}
    for text in texts:
        for asked in islice(_ASKS.finditer(text.text), 16):
            rows = list(_ROW.finditer(text.text, asked.end(), asked.end() + _FAR))
            sums = {row["dev"]: sum(map(int, row["counts"].split())) for row in rows}
            bad = [row for row in rows if sums[row["dev"]] >= _MANY]
            if len(bad) != 1 or len(sums) < _FEWEST or any(sums[dev] for dev in sums if dev != bad[0]["dev"]):
                continue
            if failed and failed != {bad[0]["dev"]}:
                continue
            device, host = named(bad[0]["dev"], 30), host_before(text, asked.end())
            on = f" on {named(host, 40)}" if host else ""
            bits = next(((each, found) for each in texts if (found := _BITS.search(each.text))), None)
            how = f", and {bits[1]['name']} of {bits[1]['n']} tells of bit errors" if bits else ""
            return Sharper(
                f"the link of {device}{on} loses packets: it alone counts retransmissions, the other {len(sums) - 1} "
                f"NICs none{how}",
                f"clean or replace the cable or transceiver of {device}{on}, and look at its switch port (mlxlink -d "
                f"{device} -m -c -e on the host). Until then leave it out: NCCL_IB_HCA=^{device} on all nodes. "
                "Timeouts and GID indices are not at fault",
                (text.evidence(bad[0].start()), *([bits[0].evidence(bits[1].start())] if bits else [])),
            )
    return None
