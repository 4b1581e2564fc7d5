"""Somebody says of a log that nothing more comes: the only sign of a job that hangs without a word."""

from busbw.doctor.signature import Signature, Stage

_WHO = (
    r"(?:it|this|(?:the|my|our|same) (?:\w{2,20} )?(?:program|script|job|test|process|run|code|training|server"
    r"|benchmark|command))"
)

_TOLD = (
    r"^(?![^\n]{0,300}(?:\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|fixed|solved|no longer|used to|if|unless|would|should|may"
    r"|might)\b|\w=))[^\n]{0,200}?"
)
"""No line of a program's level or of settings, and no talk of what may be."""

SIGNATURE = Signature(
    name="stands-still",
    stage=Stage.EFFECT,
    title="the job stands still without an error: nothing comes after the last line of its output",
    patterns=(
        # A log of a program begins its lines otherwise; what users write between and behind them begins so.
        r"^\W{0,6}(?:and |then |but ){0,2}nothing (?:more|else|further|happens|after (?:this|that|it))\b",
        r"^\W{0,6}(?:and |then |but ){0,2}no (?:further|more|other) (?:output|messages?|logs?|progress|lines)\b",
        rf"^\W{{0,6}}(?:and |then |but ){{0,2}}{_WHO} (?:just |then |simply |always |will ){{0,2}}"
        r"(?:hangs?|stalls?|freezes?|gets stuck|is stuck|got stuck|stops here|never (?:returns|finishes|proceeds))\b",
        # Somebody who tells of a run, in a line that no program writes.
        rf"{_TOLD}[^\n]{{0,160}}\bthen (?:just |simply )?(?:never (?:comes? back|returns|finishes|ends|goes on)"
        r"|sits (?:there|here)|stays there|hangs(?! up)|does(?:n't| not) (?:come back|return|finish|go on))\b",
        rf"{_TOLD}\b{_WHO} (?:just |then |simply |always |only )?(?:sits (?:there|here)|never comes back|never ends"
        r"|waits forever|does(?:n't| not) (?:come back|return|finish|go on))\b",
        rf"{_TOLD}\b(?:stops|stop) here and (?:stays|sits|waits|never)\b",
        r"^\W{0,6}(?:hangs|hanging|stuck|stalls|freezes) (?:here|at this point|forever|indefinitely"
        r"|for (?:\d|ever|hours|min))",
    ),
    confirm="nvidia-smi (GPUs at 100 % and little power: a kernel of NCCL waits); py-spy dump --pid PID of each rank",
    cure=(
        "try in turn NCCL_P2P_DISABLE=1 (then ACS, the IOMMU or the driver's P2P is at fault), NCCL_SHM_DISABLE=1 and, "
        "between hosts, NCCL_IB_DISABLE=1: what helps names the way that carries nothing. Where none does, the ranks "
        "call different collectives: py-spy dump on each shows where they stand"
    ),
    cost="the job hangs",
    source="NCCL's troubleshooting page (hangs with ACS, IOMMU, VMs); public threads of hangs after init",
    soft=True,
    echo=True,
)
