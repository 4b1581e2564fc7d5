"""One rank or GPU is slower than the others."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="straggler",
    stage=Stage.HARDWARE,
    title="one rank or GPU is slower than the others, and all wait for it",
    patterns=(
        r"STRAGGLER DETECTION WARNING",
        r"(?:worse|lower|degraded) (?:relative|individual) performance\b.{0,60}\branks?\b",
        r"\bstragglers? (?:are|is|nodes?|ranks?|GPUs?)\b\W{0,3}\[? ?\d",
        r"relative performance\b.{0,60}\b(?:rank|GPU|node)\D{0,4}\d+\D{1,6}0\.[0-6]\d*",
        r"\b(?:slow|lagging) (?:rank|GPU|node)s?\b\W{1,4}(?:detected|found|is|are)?.{0,20}\d",
        r"\b(?:GPUs?|ranks?|nodes?)\b.{0,40}\b(?:is|are) (?:a )?stragglers?\b",
        r"\bstragglers? (?:detected|found|identified)\b.{0,40}\b(?:rank|node|GPU)",
        r"\bstragglers? (?:detected|found|identified)\W{1,4}\d{1,5}\b",
    ),
    unless=("no straggler", " 0 straggler"),
    confirm="nvidia-smi -q -d CLOCK,PERFORMANCE,POWER and top on that host while the job runs; busbw doctor on two "
    "hosts",
    cure=(
        "look for heat, a power cap, other programs, a slow PCIe link or memory errors on the GPU that is named. Run "
        "without that node (--exclude): where the job is fast then, have the node repaired"
    ),
    cost="every step takes as long as on the slowest rank",
    severity=Severity.WARNING,
    source="NVIDIA Resiliency Extension: straggler detection",
)
