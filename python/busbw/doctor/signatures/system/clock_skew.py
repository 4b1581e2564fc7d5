"""Clocks of hosts differ."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="clock-skew",
    stage=Stage.SYSTEM,
    title="the clocks of hosts differ or are not synchronised",
    patterns=(
        r"high clock drift|[Cc]lock skew (?:too great|detected|is too)|KRB_AP_ERR_SKEW|RequestTimeTooSkewed",
        r"System clock wrong by -?[1-9]\d*\.\d+ seconds",
        r"Can't synchronise: no (?:selectable|majority|reachable)",
        r"clocksource\b.{0,120}\bunstable\b",
        r"\bclocks? (?:of|on|between) .{3,60}(?:differ|not synchroni[sz]ed|out of sync)|System clock synchronized: no",
    ),
    confirm="timedatectl and chronyc tracking on every host",
    cure=(
        "run chrony with the same servers on every host and let it step the clock (chronyc makestep). Where the "
        "kernel calls tsc unstable, update the BIOS or replace the host"
    ),
    source="chrony, etcd, Kerberos; the Linux kernel: kernel/time/clocksource.c",
    cost="tickets and credentials are refused, leaders change, and times in logs mislead",
    explains=("slurm-setup", "certificate", "credentials"),
)
