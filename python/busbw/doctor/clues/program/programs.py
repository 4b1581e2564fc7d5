"""Clues of programs: how ranks were started, which libraries are there, and what a script shows around a call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_RANKS = re.compile(
    r"(?<!\w)(?:global_?)?rank['\"]?[ =:]{1,3}(?P<rank>\d{1,6})\b[^\n]{0,60}?"
    r"\blocal[_ ]?rank['\"]?[ =:]{1,3}(?P<local>\d{1,3})\b",
    re.IGNORECASE,
)
_LAUNCHER = re.compile(r"torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed")
_SRUN = re.compile(r"\bsrun [^\n]{0,400}")
_MPIRUN = re.compile(r"\b(?:mpirun|mpiexec) [^\n]{0,400}")
_OF_LAUNCHERS = {
    "srun": ("srun sets SLURM_LOCALID, and no LOCAL_RANK", 'int(os.environ["SLURM_LOCALID"])'),
    "mpirun": (
        "mpirun sets OMPI_COMM_WORLD_LOCAL_RANK, and no LOCAL_RANK",
        'int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])',
    ),
    "": ("the launcher sets no LOCAL_RANK, or the program does not read it", 'int(os.environ["LOCAL_RANK"])'),
}


def local_rank_alike(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several ranks say that they have the same local rank."""
    for text in texts:
        locals_of: dict[str, dict[str, int]] = {}
        for found in _RANKS.finditer(text.text):
            locals_of.setdefault(found["local"], {}).setdefault(found["rank"], found.start())
        if len(locals_of) != 1 or len(ranks := next(iter(locals_of.values()))) < 2:
            continue
        runs = [(name, each.search(text.text)) for name, each in (("srun", _SRUN), ("mpirun", _MPIRUN))]
        by = next((name for name, run in runs if run is not None and not _LAUNCHER.search(run[0])), "")
        why, value = _OF_LAUNCHERS[by]
        local = next(iter(locals_of))
        return Sharper(
            f"{finding.title.partition(': ')[0]}: all of them have local rank {local}, since {why}",
            f"take the device from there: torch.cuda.set_device({value}), or export LOCAL_RANK in each task; or start "
            "by torchrun (one task per node), which sets it",
            tuple(text.evidence(at) for at in list(ranks.values())[:2]),
        )
    return None


_SYMBOL = re.compile(r"\b(?P<what>p?nccl|cudnn|cublas|cusparse|cufft|nvshmem)\w{1,80}")
_PACKAGE = re.compile(
    r"^nvidia-(?P<what>[a-z]{3,12})-cu(?P<cuda>\d\d)[ =\t]{1,40}(?P<version>\d[\w.]{0,20})", re.MULTILINE
)


def of_two_packages(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two packages of pip, for two releases of CUDA, hold the same library in the same folder."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    if (symbol := re.search(r"(?:symbol:? |\()['`]?(\w{4,100})", said)) is None or not _SYMBOL.match(symbol[1]):
        return None
    what = _SYMBOL.match(symbol[1])["what"].removeprefix("p")  # type: ignore[index]
    for text in texts:
        packages = {each["cuda"]: each for each in _PACKAGE.finditer(text.text) if each["what"] == what}
        if len(packages) < 2:
            continue
        old, new = (packages[each] for each in (min(packages), max(packages)))
        return Sharper(
            f"libraries of different versions are mixed: nvidia-{what}-cu{old['cuda']} {old['version']} and "
            f"-cu{new['cuda']} {new['version']} are installed into one folder, and one has overwritten the "
            f"other ({named(symbol[1])} is missing)",
            f"pip uninstall -y nvidia-{what}-cu{old['cuda']}, then pip install --force-reinstall --no-deps "
            f"nvidia-{what}-cu{new['cuda']}=={new['version']}. See what pulled in the packages of CUDA {old['cuda']} "
            "(pip show), and give it an environment of its own",
            (text.evidence(old.start()), text.evidence(new.start())),
        )
    return None


_LOADED = re.compile(r"libnccl\.so(?:\.\d{1,3}){0,3} => (?P<path>/\S{3,200})")
_STRINGS = re.compile(r"^NCCL version (?P<version>2\.\d{1,3}\.\d{1,3})", re.MULTILINE)


def loaded_library(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """`ldd` shows which NCCL is loaded that lacks the symbol."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    symbol = re.search(r"\bp?nccl[A-Z]\w{3,80}", said)
    for text in texts if symbol else ():
        if (path := _LOADED.search(text.text)) is None:
            continue
        of_pip = "/nvidia/nccl/" in path["path"]
        version = _STRINGS.search(text.text)
        which = f" ({version['version']})" if version else ""
        return Sharper(
            f"the NCCL that is loaded{which} is too old for the program: "
            f"{named(path['path'], 100)} has no {named(symbol[0]) if symbol else ''}",
            "pip install --force-reinstall --no-deps nvidia-nccl-cu12 (cu13) of the version that PyTorch asks for (pip "
            "check): another package has overwritten it"
            if of_pip
            else "leave that folder out of LD_LIBRARY_PATH and LD_PRELOAD, or install a newer NCCL there: PyTorch "
            "needs the one it was built with (site-packages/nvidia/nccl/lib), or a newer one",
            (text.evidence(path.start()),),
        )
    return None


_OPTION = re.compile(r"FI_(?:OPT_)?\w{4,80}")
_LDD = re.compile(r"libfabric\.so\.1 => (?P<path>/\S{3,160})")
_INFO = re.compile(r"^libfabric: (?P<version>\d[\w.]{0,24})", re.MULTILINE)


def older_libfabric(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin sets an option that the libfabric which was loaded does not know."""
    evidence = " ".join(seen.fact for seen in finding.evidence)
    if not re.search(r"FI_OPT_\w{4,80}.{0,60}(?:RC: -92\b|Protocol not available)", evidence):
        return None
    option = _OPTION.search(evidence)
    title = f"the libfabric that is loaded does not know {option[0] if option else 'an option'}"
    seen = []
    for text in texts:
        if path := _LDD.search(text.text):
            title += f" ({named(path['path'], 80)})"
            seen.append(text.evidence(path.start()))
        versions = {each["version"]: each for each in _INFO.finditer(text.text)}
        if len(versions) > 1:
            title += f"; versions {' and '.join(named(each) for each in versions)} are installed"
            seen += [text.evidence(each.start()) for each in versions.values()]
        if seen:
            break
    return Sharper(
        f"{title}: it is older than the one that aws-ofi-nccl was built with",
        "let the plugin load the libfabric of the EFA installer: /opt/amazon/efa/lib64 (lib on Ubuntu) first in "
        "LD_LIBRARY_PATH or ld.so.conf. Remove the distribution's libfabric1 and libfabric-bin. "
        "Then ldd libnccl-net.so shows it. Else rebuild the plugin against the one that is there",
        tuple(seen),
    )


_START = re.compile(
    r"(?:deepspeed\.launcher\.launch\b[^\n]{0,400}?--master_port|\btorchrun\b[^\n]{0,300}?--(?:master[_-]port|rdzv[_-]endpoint"
    r"[ =]\S{1,60}))[ =:](?P<port>\d{3,5})\b"
)
_IN_USE = re.compile(r"(?i:address already in use|EADDRINUSE)")
_TASKS = re.compile(r"\bsrun\b[^\n]{0,200}?\s(?:-n|--ntasks(?:-per-node)?)[ =]?(?:[2-9]|\d\d{1,4})\b")
_RUNNER = re.compile(r"\bcmd = ")


def several_launchers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several launchers started before the first of them failed, all for one port of one node."""
    for text in texts:
        failed = _IN_USE.search(text.text)
        if failed is None:
            continue
        starts = [
            each
            for each in _START.finditer(text.text, 0, failed.start())
            if _RUNNER.search(text.text, text.text.rfind("\n", 0, each.start()) + 1, each.end())
        ]
        ports = {each["port"] for each in starts}
        if len(starts) < 2 or len(ports) != 1 or "world_info" not in text.text:
            continue
        run = _TASKS.search(text.text)
        by = ": srun starts one for each of its tasks" if run else ""
        return Sharper(
            f"{len(starts)} launchers start on one node and want the same port ({next(iter(ports))}){by}",
            "start the launcher once per node (srun --ntasks-per-node=1, with all its GPUs), or let srun start the "
            "ranks without a launcher. Another port does not help: each one starts all ranks again, on the same GPUs",
            (text.evidence(starts[0].start()), text.evidence(starts[1].start()))
            + ((text.evidence(run.start()),) if run else ()),
        )
    return None


_STALLED = re.compile(r"(?<=\S) \[(?P<how>ready|missing) ranks: (?P<ranks>\d[\d, ]{0,200})\]")


_MISSING = re.compile(r"(?:Missing|Stalled) ranks:\s{0,4}\n(?P<rows>(?:[^\n]{0,40}?\d{1,5}: \[[^\n]{1,3000}\n?){2,64})")
"""As newer releases of Horovod list it: by rank, the tensors that others handed over and it did not."""
_LACKS = re.compile(r"(?:^|[\s:>])(?P<rank>\d{1,5}): \[(?P<names>[^\n]{1,3000})", re.MULTILINE)


def apart_in_horovod(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Horovod lists tensors that wait: some ranks hand over one of them, the others another."""
    for text in texts:
        found = _ready_apart(text) or _missing_apart(text)
        if found is None:
            continue
        told, at = found
        return Sharper(
            f"ranks took different ways through the program, and wait for each other: {told}",
            "let all ranks take the same branch in the same step. What decides it (a phase, a counter, tf.cond, the "
            "end of the data) must come from one rank by broadcast, or from the global step. Each rank needs the same "
            "number of batches",
            (text.evidence(at),),
        )
    return None


def _ready_apart(text: Text) -> tuple[str, int] | None:
    """By the ranks that are ready for each tensor, or by those that lack it."""
    ready: dict[frozenset[str], re.Match[str]] = {}
    for found in _STALLED.finditer(text.text):
        ready.setdefault(frozenset(re.findall(r"\d+", found["ranks"])), found)
    for one, mine in ready.items():
        other = next((each for each in ready if not each & one), None)
        if other is not None:
            sides = sorted((one, other), key=len)
            does = "lacks" if mine["how"] == "missing" else "in"
            told = [f"rank {', '.join(sorted(each, key=int)[:8])} {does} {_op(text, ready[each])}" for each in sides]
            return ", ".join(told), mine.start()
    return None


def _missing_apart(text: Text) -> tuple[str, int] | None:
    """By the tensors that each rank lacks: those of a rank that is only late are all others' tensors."""
    for found in _MISSING.finditer(text.text):
        lacks = {each["rank"]: each["names"].rstrip(" .]").split(", ") for each in _LACKS.finditer(found["rows"])}
        for rank, names in lacks.items():
            other = next((each for each, theirs in lacks.items() if not set(theirs) & set(names)), None)
            if other is not None:
                told = f"rank {rank} lacks {named(names[0])}, and rank {other} {named(lacks[other][0])}"
                return told, found.start("rows")
    return None


def _op(text: Text, found: re.Match[str]) -> str:
    """The last part of the long name of the tensor that the list names before its ranks."""
    name = text.text[max(0, found.start() - 200) : found.start()].split()[-1]
    return named(name if len(name) <= 60 else f"...{name[-56:]}", 64)


_COLLECTIVE = (
    r"(?:[\w.]{0,60}\.(?:save_(?:state|checkpoint|model|pretrained|fsdp_model|16bit_model)|get_state_dict|state_dict_type"
    r"|full_state_dict|state_dict|optim_state_dict|barrier|wait_for_everyone|all_gather\w*|all_?reduce\w*"
    r"|gather_for_metrics|gather_object|reduce_scatter\w*|broadcast_object_list)"
    # Tensors have methods of these names, too.
    r"|(?:[\w.]{0,40}\.)?(?:dist|distributed|accelerator|fabric|hvd|comm)\.(?:gather|reduce|broadcast|scatter))"
)
_CALLS = re.compile(rf"(?:^|[ (=\t])(?P<call>{_COLLECTIVE})\(")
_MAIN = re.compile(
    r"^(?P<indent>[ \t]{0,40})(?P<if>@rank_zero_only|if [^\n]{0,80}(?:is_(?:local_)?main_process"
    r"|is_world_process_zero|is_global_zero|is_rank_0|rank(?:\(\))? ?== ?0)[^\n]{0,40}:)[^\n]{0,40}$",
    re.MULTILINE,
)
"""A condition that holds on one rank alone, as it stands in a script."""
_MOST_LINES = 12
_SHARDED = re.compile(r"FSDP|fsdp|FULL_SHARD|\bZeRO|zero_stage|\bzero[23]\b|[Dd]eep[Ss]peed|[Mm]egatron")
_SAVES = re.compile(r"save_|state_dict")


_SIZES = re.compile(r"calls _?ALLGATHER\w{0,12} of (\d{1,15}) elements")
_EVALUATES = re.compile(r"\b(?:Evaluat\w{1,6}|Predict\w{1,6}|Validat\w{1,6}|[Ee]val(?:uation)?)\b[^\n]{0,40}\d{1,3}%")


def uneven_gather(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """An evaluation gathers what each rank padded to the longest of its own batch, or its last batch is smaller."""
    if len(set(_SIZES.findall(finding.title))) < 2:
        return None
    for text in texts:
        bars = list(_EVALUATES.finditer(text.text))
        if bars:
            return Sharper(
                f"ranks gather batches of different size in the evaluation: {finding.title}",
                "pad to one length on all ranks before the gather (accelerator.pad_across_processes, padding="
                "'max_length'), or gather with gather_for_metrics or all_gather_object. Let the last batches be equal: "
                "drop_last, or a sampler that fills up",
                (text.evidence(bars[-1].start()),),
            )
    return None


def behind_main_process(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The script beside the log calls something of all ranks behind a condition that one rank alone meets."""
    for text in texts:
        for found in _MAIN.finditer(text.text):
            if (inner := _call_within(text, found)) is None:
                continue
            call, at = inner
            of_all = ": it gathers the shards of all of them, and writes where it has to" if _SAVES.search(call) else ""
            title = finding.title.rpartition("): ")[2] if "others wait for it (" in finding.title else finding.title
            return Sharper(
                f"the script calls {named(call)} behind a condition that one rank alone meets "
                f"({named(found['if'])}), and all ranks must call it: {title}",
                f"call {named(call)} on all ranks, outside of that condition{of_all}. Only what one rank does for "
                "itself may stand behind it, such as prints and files of its own",
                (text.evidence(found.start("if")), text.evidence(at)),
            )
    return None


def _call_within(text: Text, condition: re.Match[str]) -> tuple[str, int] | None:
    """The call of all ranks, and its place, among the lines that stand deeper than the condition."""
    depth = len(condition["indent"].expandtabs())
    at = condition.end() + 1
    for number in range(_MOST_LINES):
        line = text.text[at : at + 400].partition("\n")[0]
        inner = line.lstrip()
        of_decorator = not number and inner.startswith(("def ", "async def "))
        if inner and len(line.expandtabs()) - len(inner.expandtabs()) <= depth and not of_decorator:
            return None
        found = _CALLS.search(line)
        # Where each rank has the whole model, saving is one rank's work.
        if found and (not _SAVES.search(found["call"].rpartition(".")[2]) or _SHARDED.search(text.text)):
            return found["call"], at + found.start("call")
        if (end := text.text.find("\n", at)) < 0:
            return None
        at = end + 1
    return None
