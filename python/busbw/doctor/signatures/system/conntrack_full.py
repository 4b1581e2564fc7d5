"""A firewall's table of connections that is full."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="conntrack-full",
    stage=Stage.SYSTEM,
    title="the firewall's table of connections (nf_conntrack) is full, so that the kernel drops packets",
    patterns=(r"nf_conntrack: table full", r"ip_conntrack: table full"),
    confirm="sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max on the hosts of the job",
    cure=(
        "sysctl -w net.netfilter.nf_conntrack_max=1048576 (and the hash size) on the hosts, or leave the job's network "
        "untracked (iptables -t raw ... -j NOTRACK, hostNetwork)"
    ),
    source="Linux net/netfilter/nf_conntrack_core.c",
    explains=("connection-timeout", "remote-error", "connection-refused", "master-unreachable", "rendezvous-timeout"),
)
