"""A switch that asks for 802.1X does not let the RoCE ports of a host in."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether the login of a port failed and never came to pass, and RDMA failed by it."""
    failed = {each["port"] for each in groups if "failed" in each}
    passed = {each["port"] for each in groups if "passed" in each}
    return bool(failed - passed) and any("effect" in each for each in groups)


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the reason that the other end gives."""
    expired = any("expired" in each for each in groups)
    why = ": its certificate has expired" if expired else ""
    passed = {each["port"] for each in groups if "passed" in each}
    ports = dict.fromkeys(each["port"] for each in groups if "failed" in each and each["port"] not in passed)
    # A port may keep its address from before: transfers alone fail then.
    bare = any(not each["effect"].lower().startswith("status=") for each in groups if "effect" in each)
    by = "; they have no address, so no GID, by that" if bare else ""
    return f"the switch does not let RoCE ports of a host in (802.1X; {', '.join(list(ports)[:4])}){why}{by}"


SIGNATURE = Signature(
    name="roce-refused",
    stage=Stage.SYSTEM,
    title="the switch does not let RoCE ports of a host in (802.1X)",
    tell=_tell,
    patterns=(
        r"(?P<port>[\w.-]{1,30}): CTRL-EVENT-EAP-(?P<failed>FAILURE)",
        r"(?P<port>[\w.-]{1,30}): CTRL-EVENT-EAP-(?P<passed>SUCCESS)",
        r"(?:wpa_supplicant|SSL3 alert|OpenSSL).{0,200}(?P<expired>certificate (?:has )?expired)",
        r"ibv_modify_qp failed.{0,200}(?:local|remote) (?P<effect>GID ::)(?![\da-f])",
        r"NCCL WARN.{0,200}(?P<effect>status=(?:12|IBV_WC_RETRY_EXC_ERR))\b",
        r"(?P<effect>n_gids_found=[012])\s*$",
    ),
    holds=_holds,
    explains=(
        "ib-invalid-gid",
        "ib-port-down",
        "ib-retry",
        "ib-connect-timeout",
        "ibv-call-failed",
        "no-interface",
        "no-route",
        "certificate",
    ),
    between_nodes=True,
    confirm=(
        "journalctl -u 'wpa_supplicant*'; openssl x509 -enddate -noout -in the client's certificate; ip -br -4 a and "
        "show_gids on that host"
    ),
    cure=(
        "renew the client's certificate and start wpa_supplicant again. On OCI enable oracle-cloud-agent, whose "
        "plugins for HPC RDMA authentication and configuration renew it and give the ports their addresses. Leave the "
        "host out until show_gids shows its IPv4 entries"
    ),
    source="wpa_supplicant; OCI's cluster networks",
)
