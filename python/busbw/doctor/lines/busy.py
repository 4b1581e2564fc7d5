"""What a rank does for itself while others wait for it: prepares data, loads, saves, evaluates, compiles, downloads.

A collective whose time is over tells who waited. Why the missing rank did not come stands elsewhere in the log: in the
progress bar of a tokenizer, in "Validation: 21%", or in the log of another node that still loads its weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.speakers import rank_of

WORDS = (
    *("tokeniz", "preprocess", "pre-process", "map", "filter", "packing", "split", "dropping long", "index", "dataset"),
    *("download", "fetching", "retry", "back-off", "backoff", "checkpoint", "weight", "loading", "saving", "writing"),
    *(
        "consolidat",
        "upload",
        "eval",
        "validat",
        "predict",
        "inference",
        "metrics",
        "_object",
        "unpickl",
        "val ",
        "val_",
        "compil",
        "autotun",
        "captur",
    ),
    *("warm", "data ", "data_", "files", "examples", "samples", "shards", "decod", "beam", "on main", "on the main"),
    *("on rank 0", "generating", "%|", "members", ".tar", "parquet", "archive"),
    *("prepar", "encoded", "converted", "extracted", "built ", "packed", "cached"),
    *(" saved", " written", "wrote ", "export", "uploaded", "copied"),
)
"""One of these is in each line that tells of such work."""
_MOST, _MAX_LOOK, _MOST_KINDS = 256, 400, 4096
_DIGITS = re.compile(r"\d+")
_ALIKE = str.maketrans("0123456789", "0000000000")
LONG_S = 30.0
"""A work that took less is not remembered once it has ended."""
_TOOK = re.compile(
    r"\b(?:took|in|after|elapsed(?: time)?|time)\b[ :=(]{0,4}(?P<n>\d{1,7}(?:\.\d{1,9})?) ?\(?"
    r"(?P<unit>s|m)(?:ec\w*|in\w*)?\b",
    re.IGNORECASE,
)


class Work(NamedTuple):
    """The last line of a work that has not ended: its kind, the line, its text."""

    kind: str
    line: int
    text: str
    parts: int = 0
    """How many parts of it are done, where it tells each; 0 where it tells none."""
    every_s: float = 0.0
    """Seconds from part to part; 0 where no times tell it."""
    whole_s: float = 0.0
    """Seconds that all of it takes at the pace so far, where it counts and times tell it; else 0."""


class _Parts(NamedTuple):
    """Parts of one work that were told so far, by lines that differ in their numbers alone."""

    shape: str
    done: int
    line: int
    text: str
    begun: float | None


class _Count(NamedTuple):
    """Where a work stood, of how many steps, when its rank first counted it."""

    kind: str
    done: int
    of: int
    when: float


_PART = re.compile(
    r"\b(?:checkpoint|model|shard|part|weights|ckpt|tensors?|file)s?\b.{0,80}\b(?:saved|written|exported|uploaded|copied)\b"
    r"|\b(?:saved|wrote|exported|uploaded|copied)\b.{0,60}\b(?:shard|part|checkpoint|weights|model|file|safetensors)",
    re.IGNORECASE,
)
"""One part of a checkpoint is done: of many parts the work goes on with the next."""
_FEW_PARTS = 3


class _Kind(NamedTuple):
    words: re.Pattern[str]
    does: str
    cure: str


_RAISE = (
    "Where the work has to take so long, raise the time above it: init_process_group(timeout=), ddp_timeout, "
    "--distributed-timeout-minutes, --dist-timeout"
)
ALONE = "alone"
"""The kind of a work that has no other: it counts only where it goes on after others gave up."""
KINDS: Mapping[str, _Kind] = {
    name: _Kind(re.compile(words, re.IGNORECASE), does, f"{cure}. {_RAISE}")
    for name, words, does, cure in (
        (
            "objects",
            r"\b(?:all_)?gather_object\b(?! \()|broadcast_object\w*(?! \()|_tensor_to_object"
            r"|\bunpickl|collect\w* (?:all )?predictions",
            "gathers Python objects and unpickles them",
            "write each rank's predictions to a file of its own, or gather tensors and reduced metrics; pickled "
            "objects of all ranks are unpacked by one process",
        ),
        (
            "download",
            r"\bdownload(?:ing)?\b(?!ed)|\bfetching \d|\bretry\w* (?:in|after) \d|\bback-?off\b|resolving data files",
            "downloads, or waits for a server that puts it off",
            "download model and data once before the job to a disk that all ranks see (then HF_HUB_OFFLINE=1), or "
            "stream from a copy of your own. A server limits how often it answers (429)",
        ),
        (
            "data",
            r"\btokeniz(?:ing|e|ation|er on)\b|\bpre-?process(?:ing)?\b"
            r"|\b(?:map|filter)\b ?(?:\(num_proc|:)|\bpacking\b"
            r"|\b(?:prepared|pre-?processed|tokenized|encoded|converted|extracted|built|indexed|packed|cached)\b.{0,60}?"
            r"(?<![\d/])\d{1,9} ?(?:/|of) ?\d{1,9}\b"
            r"|\bcaching\b.{0,24}\b(?:images|latents|features|videos|samples|data|examples|labels|embeddings)\b"
            r"|generating \w{1,20} split|dropping long|grouping texts|saving the dataset"
            r"|\b(?:build(?:ing)?|creating|indexing|shuffling|preparing)\b.{0,40}\b(?:datasets?|index|indices|samples|data)\b"
            # Sets are named by what they are for: their preparation evaluates nothing.
            r"|\b(?:build(?:ing)?|creat(?:ing|e)|prepar(?:ing|e)|convert(?:ing)?|generating|caching|writing)\b"
            r".{0,24}\b(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|dev)[ _-](?:sub)?(?:sets?|split|data)"
            r"\b"
            r"|\b(?:build(?:ing)?|creat(?:ing|e)|prepar(?:ing|e)|convert(?:ing)?|writing)\b.{0,40}"
            r"\b(?:hdf5|lmdb|tfrecords?|webdataset|memmap|mmap|tiles|patches|spectrograms?|mel features|embeddings)\b",
            "prepares the data",
            "prepare the data once before the job (a cache of datasets on a disk that all nodes see) and start from "
            "the result. Give each rank as much of it as the others",
        ),
        (
            "load",
            r"\bload(?:ing)?\b.{0,40}\b(?:checkpoint|weights?|model|shards|state)\b"
            r"|\brestor(?:ing|e)\b.{0,30}\bcheckpoint",
            "loads weights or a checkpoint",
            "copy the model to a local disk of every node, or mend the file system that is slow there (compare how "
            "fast the nodes read one file). Start the nodes at the same time",
        ),
        (
            "save",
            r"\b(?:saving|writing|dumping|consolidating|uploading|pushing|merging)\b.{0,40}"
            r"\b(?:checkpoint|model|state|weights|optimizer|shards|hub|s3|gcs|ckpt)",
            "saves a checkpoint",
            "look at the storage that it writes to: a write may hang there. Save in shards from all ranks and in the "
            "background (torch.distributed.checkpoint async_save, --async-save), to storage that takes it faster; no "
            "full state dict on rank 0 alone",
        ),
        (
            "eval",
            r"\b(?:evaluat(?:ing|ion|e)|validat(?:ing|ion)|(?:eval|val)(?=\b|_)|predict(?:ing|ions?)|testing)(?=\b|_)"
            r"|\b(?:running|starting|computing) (?:\w{1,20} ){0,2}(?:inference|metrics)\b"
            r"|\bdecod(?:ing|e)\b.{0,60}\b(?:set|samples?|dev|test|beams?|main process|rank 0)\b|\bbeam search\b"
            r"|\bon (?:the )?main process\b|\bon rank 0 (?:only|alone)\b|\bgenerating (?:samples|images|videos)\b",
            "evaluates",
            "evaluate on all ranks with the same number of batches (a distributed sampler, drop_last), or let the "
            "others wait for it in a barrier. Give all ranks the same number of training batches, too (DDP join()): "
            "who has fewer comes to the evaluation first. Horovod: HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        ),
        (
            "read",
            r"\b(?:scan(?:s|ning)?|open(?:s|ing)?|read(?:s|ing)?|extract(?:s|ing)?|unpack(?:s|ing)?|untar\w*|stag(?:e|ing)"
            r"|copy(?:ing)?|list(?:s|ing)?|stat)\b.{0,80}(?:\.(?:tar|tgz|zip|parquet|arrow|npy|bin|jsonl|tfrecord|h5|mds)\b"
            r"|\b(?:shards?|members|archives?|parquet|index(?:es)?|files)\b)"
            # A bar without a name that counts bytes: steps of a training are no bytes.
            r"|^\s{0,4}\d{1,3}%\|[^|]{0,200}\|[^\[]{1,60}\[\d[\d:]{3,8}<[\d:?]{1,8}, {1,4}[\d.]{1,16} ?[kMGTi]{0,2}B/s",
            "reads its part of the data",
            "look at what that rank reads: its storage and cache, an index that is missing, shards of equal size. Copy "
            "the data to a local disk, or make its index once before the job",
        ),
        (
            "input",
            "(?!)",  # told by what ranks say of their times
            "waits far longer for its data than the others",
            "look at what that rank reads: its storage, cache and processor cores, more workers, shards of equal size; "
            "a longer time only hides it",
        ),
        (
            "compile",
            r"\b(?:compiling|autotuning|capturing|warming up|tracing)\b"
            r"|\bwarm-?up: {0,4}\d{1,3} ?%|\bJIT\b.{0,40}\bcompil",
            "compiles, tunes or captures graphs",
            "let all ranks compile at once and keep the compiled code (TORCHINDUCTOR_CACHE_DIR, "
            "jax_compilation_cache_dir, TRITON_CACHE_DIR on a local disk). Kernels that a server compiles at its "
            "start are best made before, on every node (python -m sglang.compile_deep_gemm)",
        ),
        (
            ALONE,
            # A bar with a name of its own, and not that of the training, which all ranks show alike.
            r"^(?:\[\w{1,20}\]: ?)?(?!.{0,50}(?:epoch|step|iter|train|fit|batch|loss|progress|rollout))"
            r"[A-Za-z][\w ./()-]{2,50}: {1,4}\d{1,3}%\|",
            "works through something of its own",
            "spread that work over all ranks, or do it before or after the job; a callback on rank 0 must be shorter "
            "than the time for which the others wait",
        ),
    )
}
_NO_WORK = re.compile(
    r"\bFile \"|NCCL|ProcessGroup\w{2,8}\.cpp|\b[Ee]rror\b|Exception|[Ww]arning|Traceback|\bstore->|process group|--\w"
    r"|^\s{0,40}(?:return )?[A-Za-z_][\w., ]{0,60} = [A-Za-z_][\w.]{0,80}\("
    r"|\w=\w.{0,200}, \w{1,40}=|\b(?:printed|shows?|said|says) [`\"']"
    r"|\b(?:will|would|can|could|if|disable\w*|skip\w*|not|no|before|after|every)\b",
)
"""What tells no event, or one of another kind."""
_PERCENT = re.compile(r"\b(\d{1,3})(?:\.\d{1,6})? ?%")
_NAME = re.compile(r"(?<![\w.-])[A-Za-z_](?=[\w.-]{0,60}\d)[\w.-]{5,80}\w")
"""A file or folder of a checkpoint by its name, which has a number mostly."""
_DONE = re.compile(r"\b(?:saved|written|committed|uploaded|is ready now)\b", re.IGNORECASE)
_LEFT = re.compile(r"\[(?P<gone>\d[\d:]{3,8})<(?P<left>\d[\d:]{3,8}),")
"""How a bar of tqdm tells the time that is gone, and that which it expects."""
_STEPS = re.compile(
    r"(?<![\d/])(?!(?<=[Rr]ank )\d{1,12} of )(?!(?<=[Nn]ode )\d{1,12} of )(?!(?<=[Ee]poch )\d{1,12} of )"
    r"(\d{1,12})(?:/| of )(\d{1,12})(?![\d/])"
)
_ENDED = re.compile(
    r"\b(?:done|finished|completed?(?! (?:epoch|step|iteration|batch|pass|round)e?s?\b)|took|saved|loaded|end(?:ed|s)?"
    r"|elapsed|succe\w+|ready|time:|in \d[\d.]* ?s(?:ec\w*)?)\b",
    re.IGNORECASE,
)
_SMALL = re.compile(r"\b(?:config\w*|tokenizer\w*|special tokens)\b.{0,40}\bsaved\b", re.IGNORECASE)
"""What is saved beside the weights, and first."""
_RESULT = re.compile(
    r"(?:\b|_)(?:loss|acc\w{0,6}|ppl|perplexity|score|f1|bleu|map|reward|runtime|samples_per_second)\b\W{1,3}\d",
    re.IGNORECASE,
)
"""A result ends what it is the result of; a checkpoint that is saved is named by its own."""
_GLUED = re.compile(r"(?<=[\]\)s])(?=Traceback \(most|\[rank\d{1,7}\]: ?|\[E ProcessGroup|terminate called)")
"""Where an error begins behind a bar that had no end of line yet."""
_AT_END = re.compile(r"\b(?:on )?rank[ =:]{1,2}(\d{1,7})\W{0,3}$", re.IGNORECASE)
"""`Running predictions, rank=0`: whose work it is."""
_DATA = re.compile(
    r"\bdata(?:(?:loader|set)?[ _-]?(?:is )?(?:ready|loaded|load\w*|fetch\w*|wait\w*|time|read\w*)\b\D{0,24}"
    r"|[ =:]{1,2})"
    r"(?P<seconds>\d{1,6}(?:\.\d{1,6})?) ?s(?:ec\w*)?\b",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Busy:
    """The works that are open in a log, by rank ("" where a line names none), and how long ranks waited for data."""

    open: dict[str, Work] = field(default_factory=dict)
    data: dict[str, tuple[float, int, str]] = field(default_factory=dict)
    long: dict[str, tuple[float, Work]] = field(default_factory=dict)
    """By rank, the longest work that ended and told its seconds."""
    _kinds: dict[str, str] = field(default_factory=dict)
    _parts: dict[str, _Parts] = field(default_factory=dict)
    _counts: dict[str, _Count] = field(default_factory=dict)

    def look(self, line: str, number: int, alive: int = 0) -> bool:
        """Whether the line tells of such a work; takes note of it. `alive`: the last line by which the job went on."""
        line = _GLUED.split(line[:_MAX_LOOK], maxsplit=1)[0]
        rank = rank_of(line) or _first_of(_AT_END.search(line))
        if rank and (slow := _DATA.search(line)):
            before = self.data.get(rank)
            if len(self.data) < _MOST and (before is None or float(slow["seconds"]) > before[0]):
                self.data[rank] = (float(slow["seconds"]), number, line.strip())
            return True
        kind = self._kind_of(line)
        mine = self.open.get(rank)
        steps = _STEPS.search(line)
        if not kind and mine is not None and steps and not _NO_WORK.search(line):
            kind = mine.kind  # the same rank goes on to count
        if not kind:
            if self.open and _DONE.search(line):
                self._saved(line)
            return False
        if kind == "save" and mine is not None and _SMALL.search(line):
            return True
        if kind == "save" and (work := self._part(line, number, rank, alive)) is not None:
            self.open[rank] = work
        elif _is_ended(kind, line, steps):
            if mine is not None and mine.kind == kind:
                del self.open[rank]
            elif kind == "save":
                self._saved(line)
            self._note_time(rank, Work(kind, number, line.strip()))
        elif rank in self.open or len(self.open) < _MOST:
            self.open[rank] = Work(kind, number, line.strip(), whole_s=self._whole(rank, kind, line, steps))
        return True

    def _whole(self, rank: str, kind: str, line: str, steps: re.Match[str] | None) -> float:
        """How long all of a work takes that counts its steps, by the pace since its first line."""
        if left := _LEFT.search(line):
            return _seconds(left["gone"]) + _seconds(left["left"])
        now = moment_of(line) if steps is not None else None
        if steps is None or now is None:
            return 0.0
        done, of = int(steps[1]), int(steps[2])
        first = self._counts.get(rank)
        if first is None or (first.kind, first.of) != (kind, of) or done <= first.done:
            self._counts[rank] = _Count(kind, done, of, now)
            return 0.0
        return max(0.0, (now - first.when) / (done - first.done) * of)

    def _part(self, line: str, number: int, rank: str, alive: int) -> Work | None:
        """The work of which the line tells a further part, from the third one on: one part may be all there is."""
        if not _PART.search(line) or len(self._parts) >= _MOST:
            return None
        shape = _DIGITS.sub("0", line)
        before = self._parts.get(rank)
        goes_on = before is not None and before.shape == shape and before.text != line and alive < before.line
        if not goes_on or before is None:
            self._parts[rank] = _Parts(shape, 1, number, line, moment_of(line))
            return None
        count = before.done + 1
        self._parts[rank] = before._replace(done=count, line=number, text=line)
        if count < _FEW_PARTS:
            return None
        now = moment_of(line)
        every = (now - before.begun) / (count - 1) if now is not None and before.begun is not None else 0.0
        return Work("save", number, line.strip(), count, max(every, 0.0))

    def _saved(self, line: str) -> None:
        """What is saved under a name is so for the rank, too, that had told of it before: writers name no rank."""
        names = set(_NAME.findall(line))
        for rank, work in list(self.open.items()):
            if work.kind == "save" and names & set(_NAME.findall(work.text)):
                del self.open[rank]

    def _kind_of(self, line: str) -> str:
        """The kind of work that the line tells of: bars repeat, and no figure changes what they are of."""
        bare = line.translate(_ALIKE)
        kind = self._kinds.get(bare)
        if kind is None:
            kind = kind_of(line)
            if len(self._kinds) < _MOST_KINDS:
                self._kinds[bare] = kind
        return kind

    def _note_time(self, rank: str, work: Work) -> None:
        """A work that ended, with the seconds that it says it took."""
        if (took := _TOOK.search(work.text)) is None:
            return
        seconds = float(took["n"]) * (60 if took["unit"].startswith("m") else 1)
        before = self.long.get(rank)
        if seconds >= LONG_S and (before[0] < seconds if before else len(self.long) < _MOST):
            self.long[rank] = seconds, work


def _seconds(clock: str) -> float:
    """Seconds of a time as a bar shows it: minutes and seconds, with hours before them or without."""
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or "0")
    return float(total)


def _first_of(found: re.Match[str] | None) -> str:
    return str(int(found[1])) if found else ""


def kind_of(line: str) -> str:
    """The kind of work that a line tells of; "" for none."""
    if _NO_WORK.search(line):
        return "objects" if "_tensor_to_object" in line and "File " not in line else ""
    found = next((name for name, each in KINDS.items() if each.words.search(line)), "")
    return found or ("save" if _PART.search(line) else "")


def _is_ended(kind: str, line: str, steps: re.Match[str] | None) -> bool:
    """Whether the work ended there: a bar that is full, or a word for it where nothing counts."""
    if "retry" in line.lower():
        return False  # what it counts are attempts
    if percent := _PERCENT.search(line):
        return int(percent[1]) >= 100
    if steps is not None:
        return int(steps[1]) >= int(steps[2])
    clause = re.split(r"[,;] ", line)[-1]
    # "Epoch 3 done, evaluating" tells what begins.
    said = clause if kind_of(clause) else line
    return _ENDED.search(said) is not None or (kind != "save" and _RESULT.search(said) is not None)


def counts(text: str) -> bool:
    """Whether the line counts how far its work is."""
    return bool(_PERCENT.search(text) or _STEPS.search(text))
