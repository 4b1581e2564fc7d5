"""A checkpoint and a model whose names differ by a prefix alone: which side has it, whose wrapper wrote it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LISTS = re.compile(
    r"(?P<which>[Mm]issing|[Uu]nexpected)(?: key\(s\) in state_dict: |_keys=\[|[ _]keys?(?:\(s\))?: ?\[?)"
    r"(?P<keys>['\"][^\n\]]{1,4000})"
)
"""`Missing key(s) in state_dict: "a", "b".`, `unexpected_keys=['a', 'b']`, `Missing keys: ['a']`."""
_KEY = re.compile(r"['\"](?P<key>[A-Za-z_][\w.-]{0,300})['\"]")
_MOST, _HALF = 400, 0.5
_WRITERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module", "module")
"""What wrappers put between the parts of a name, too."""
_WHOSE: Mapping[str, str] = {
    "module": "DDP, DataParallel or DeepSpeed",
    "_orig_mod": "torch.compile",
    "_fsdp_wrapped_module": "FSDP",
    "_checkpoint_wrapped_module": "activation checkpointing",
    "_forward_module": "Lightning's strategies",
    "base_model.model": "PEFT (LoRA)",
    "model": "a LightningModule or another class that holds the model as self.model",
}
_SAVES: Mapping[str, str] = {
    "module": "save model.module.state_dict() (accelerate: unwrap_model(model).state_dict())",
    "_orig_mod": "save model._orig_mod.state_dict(), or compile in place: model.compile()",
    "_fsdp_wrapped_module": "save by torch.distributed.checkpoint.state_dict.get_model_state_dict(model)",
    "_forward_module": "save the LightningModule's own state_dict(), or use its load_from_checkpoint",
    "base_model.model": "load it by PeftModel.from_pretrained(model, DIR), or save after merge_and_unload()",
    "model": "load it by the class that saved it (Lightning: load_from_checkpoint), or save model.model.state_dict()",
}
_LOADS: Mapping[str, str] = {
    "module": "load before the model is wrapped in DDP, or into the inner one: model.module.load_state_dict(state)",
    "_orig_mod": "load before torch.compile, or into the inner one: model._orig_mod.load_state_dict(state)",
    "_fsdp_wrapped_module": "load by torch.distributed.checkpoint.state_dict.set_model_state_dict(model, state)",
    "base_model.model": "load before get_peft_model, or into the base: model.get_base_model().load_state_dict(state)",
    "model": "load into the inner one: model.model.load_state_dict(state)",
}


def names_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The names that the model lacks are those that it did not expect, but for what stands in front of them."""
    evidence = Text("", "\n".join(seen.fact for seen in finding.evidence))
    for text in (*texts, evidence):
        missing, unexpected, seen = _lists(text)
        if not missing or not unexpected:
            continue
        if prefix := _prefix(unexpected, missing):
            return _told(finding, prefix, seen, of_checkpoint=True)
        if prefix := _prefix(missing, unexpected):
            return _told(finding, prefix, seen, of_checkpoint=False)
    return None


def _lists(text: Text) -> tuple[list[str], list[str], tuple[Evidence, ...]]:
    """What the model wants and the checkpoint lacks, what the checkpoint has besides, and the lines of both."""
    found: dict[str, list[str]] = {}
    seen = []
    for each in _LISTS.finditer(text.text):
        which = each["which"].lower()
        if which not in found:
            found[which] = [key["key"] for key in _KEY.finditer(each["keys"])][:_MOST]
            seen.append(text.evidence(each.start()))
    return found.get("missing", []), found.get("unexpected", []), tuple(seen)


def _prefix(longer: Sequence[str], shorter: Sequence[str]) -> str:
    """What most of the longer names have more than the shorter ones; "" where they differ otherwise."""
    known = set(shorter)
    found = Counter(each for name in longer for each in _more(name, known))
    prefix, count = found.most_common(1)[0] if found else ("", 0)
    return prefix if count >= _HALF * min(len(longer), len(shorter)) else ""


def _more(name: str, known: set[str]) -> Iterator[str]:
    """What has to be taken from a name to make a known one of it: parts in front, or what wrappers put between."""
    parts = name.split(".")
    for count in range(1, min(len(parts), 6)):
        if ".".join(parts[count:]) in known:
            yield ".".join(parts[:count])
            return
    for each in _WRITERS:
        if each in parts and ".".join(part for part in parts if part != each) in known:
            yield each
            return


def _told(finding: Finding, prefix: str, seen: tuple[Evidence, ...], *, of_checkpoint: bool) -> Sharper:
    # Of several wrappers the outermost one is named: module._orig_mod of a compiled model within DDP.
    known = next((each for each in sorted(_WHOSE, key=len, reverse=True) if f"{prefix}.".startswith(f"{each}.")), "")
    shown = f"`{named(prefix)}.`"
    whose = f", as {_WHOSE[known]} writes them" if known else ""
    if of_checkpoint:
        who = f"the checkpoint's begin with {shown}{whose}, and the model's do not"
        first = _SAVES.get(known, "save the state_dict() of the inner model that is loaded later")
    else:
        who = f"the model's begin with {shown}{whose}, and the checkpoint's do not"
        first = _LOADS.get(known, f"load into the part of the model that is meant: model.{named(prefix)}")
    strip = (
        f'. Or strip it: {{k.replace("{named(prefix)}.", "", 1): v for k, v in state.items()}}'
        if of_checkpoint
        else f'. Or add it: {{"{named(prefix)}." + k: v for k, v in state.items()}}'
    )
    helper = " (torch.nn.modules.utils.consume_prefix_in_state_dict_if_present)" if of_checkpoint else ""
    return Sharper(
        f"names of weights in the checkpoint and in the model differ by a prefix alone: {who}"
        + (" (weights stayed as they were)" if finding.name == "weights-not-loaded" else ""),
        f"{first}{strip}{helper}. strict=False is no cure: it would leave every weight as it was made. The file is "
        "whole, and the model is the right one",
        seen,
    )
