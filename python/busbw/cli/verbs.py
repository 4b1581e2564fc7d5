"""The list of verbs; adding one is its module, its page in docs/reference/ and one line here."""

from __future__ import annotations

from typing import NamedTuple

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)


class Verb(NamedTuple):
    """A word that may follow `busbw`, and where its code lies.

    The module is imported only when the verb is used. It offers `EPILOG`, the end of its help with examples, and
    `run(args) -> int`, whose arguments are those of the table of options; where `raw` is set it offers
    `run_words(verb, words) -> int` instead, which reads its own words, `--help` included.
    """

    name: str
    help: str
    file: str
    group: str
    raw: bool = False
    page: str = ""

    @property
    def module(self) -> str:
        """Where its code lies."""
        return f"busbw.cli.{self.file}"

    @property
    def reference_page(self) -> str:
        """File in docs/reference/ that describes this verb."""
        return f"{self.page or self.name}.md"


def _measure(name: str) -> Verb:
    return Verb(name, f"measure {name} and check its results", "measure", "Measure", raw=True, page="measure")


VERBS: tuple[Verb, ...] = (
    *(_measure(name) for name in COLLECTIVES),
    Verb("torch-bench", "measure what torch.distributed gets", "torch_bench", "Measure"),
    Verb("run", "start several ranks and measure with them", "run", "Launch", raw=True),
    Verb("with", "start any program with busbw's collectives in front of its NCCL", "with_", "Launch"),
    Verb("azureml", "measure as a job of Azure Machine Learning", "azureml", "Launch", raw=True),
    Verb(
        "experiment",
        "find the faster setting: measure variants in turn until the verdict is sure",
        "experiment",
        "Know",
    ),
    Verb("overlap", "measure a collective beside a matrix product: efficiency, exposed time", "overlap", "Know"),
    Verb("bisect", "find the release, setting or machine that made it slower", "bisect", "Know"),
    Verb("tune", "find the fastest of our GPU algorithms for each size", "tune", "Know"),
    Verb(
        "predict",
        "predict time and bandwidth for sizes and node counts that nobody has run",
        "predict",
        "Know",
    ),
    Verb("import", "read other tools' results into runs", "import_", "Know"),
    Verb("compare", "say whether B is faster than A, where, by how much, how surely", "compare", "Know"),
    Verb("report", "make tables and pictures: text, Markdown, CSV, JSON, HTML, SVG, PNG", "report", "Know"),
    Verb("runs", "list, show, tag, delete and query kept runs", "runs", "Know"),
    Verb("history", "show where kept runs got slower over time, and what differed", "history", "Know"),
    Verb("topo", "show GPUs, NVLinks, PCIe, NICs: matrix, drawing, NCCL's files", "topo", "Diagnose"),
    Verb("doctor", "say what keeps this machine from its bandwidth, and the fix", "doctor", "Diagnose"),
    Verb(
        "watch",
        "record every call of a job; name the rank that holds it up when it hangs",
        "watch",
        "Diagnose",
    ),
    Verb("replay", "issue the calls of a recorded job again, and compare", "replay", "Diagnose"),
    Verb("fleet", "find the slow ones of many nodes, NICs, cables and switches", "fleet", "Diagnose"),
    Verb("gate", "pass or fail a run by thresholds or a baseline", "gate", "Know"),
    Verb("completion", "print the completion for bash, zsh and fish", "completion", "Use"),
    Verb("man", "print the manual page", "man", "Use", page="completion"),
    Verb("baseline", "make thresholds from good runs", "baseline", "Know", page="gate"),
)
