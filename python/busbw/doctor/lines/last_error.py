"""What NCCL itself said last before a call of it failed, as PyTorch and XLA quote it."""

from __future__ import annotations

import re
from collections.abc import Callable

from busbw.doctor.lines import locales
from busbw.doctor.lines.candidates import Candidate, look_for
from busbw.doctor.lines.hit import MAX_WHO, Hit
from busbw.doctor.lines.speakers import speaker, words_of_rank

MAX_LINE = 4096
_OF_WORK = "the following async exception"
"""Of whose work a watchdog tells; NCCL's own sentence stands a few lines below, without the rank."""
_BELOW = 4
_OF_TORCH, _OF_XLA = "Last error:", "Last NCCL warning(error) log entry"
_QUOTED = re.compile(r"Last NCCL warning\(error\) log entry \([\w ]{1,40}\) '(?P<said>.{1,400}?)'(?:[.;]|\s*$|\s)")
_NO_SENTENCE = re.compile(
    r"\W*$|.{0,4}$|Traceback|\W*File \"|Exception raised|.*NCCL INFO|.*Last error|frame #|.{0,4}run with"
)


class LastError:
    """Follows the lines of a log; `names` are the signatures of what NCCL is said to have said last."""

    def __init__(self) -> None:
        self.names = set[str]()
        self._awaited = False
        """Whether the line before was `Last error:`, after which PyTorch gives NCCL's sentence a line of its own."""
        self._who = ""
        self._told = (0, "")
        """The last line in which a watchdog tells of its work's exception, and its rank."""
        self._teller = ""
        """The rank of which the line is that was followed last, where that line itself names none."""

    def may_follow(self, line: str) -> bool:
        """Whether the line may hold such a sentence."""
        self._teller = ""
        return self._awaited or _OF_TORCH in line or _OF_XLA in line or _OF_WORK in line

    def follow(
        self, line: str, number: int, candidates: Callable[[str], tuple[Candidate, ...]], hits: dict[str, Hit]
    ) -> None:
        """NCCL's last error, which stands behind these words or alone in the next line."""
        if _OF_WORK in line:
            self._told = (number, speaker(line))
        if self._awaited and speaker(line) != self._who:
            return  # ranks write at the same time
        if self._awaited:
            self._teller = self._told[1] if number - self._told[0] <= _BELOW and not self._who else ""
            self._say(line.rpartition("]: ")[2], line, number, candidates, hits)
        said = line.rpartition(_OF_TORCH)[2] if _OF_TORCH in line else None
        self._awaited, self._who = said is not None and not said.strip(), speaker(line)
        if said is None and (quoted := _QUOTED.search(line)) is not None:
            said = quoted["said"]
        if said is not None:
            self._say(said, line, number, candidates, hits)

    def credit(self, number: int, hits: dict[str, Hit]) -> None:
        """What was found in that line is said by the rank of which a watchdog told above."""
        if self._teller:
            for hit in hits.values():
                if hit.last == number and len(hit.who) < MAX_WHO:
                    hit.who[self._teller] = None

    def _say(
        self,
        said: str,
        line: str,
        number: int,
        candidates: Callable[[str], tuple[Candidate, ...]],
        hits: dict[str, Hit],
    ) -> None:
        """NCCL's last sentence, told as such by the line's rank where no signature knows it."""
        said = locales.in_english(said.strip()[:MAX_LINE])
        lowered = said.lower()
        known = [
            each.signature.name
            for each in candidates(said)
            if each.signature.match(said, lowered, each.patterns) is not None
        ]
        if known:
            self.names.update(known)
            return
        if not _NO_SENTENCE.match(said):
            joined = f"{words_of_rank(line)} Last error of NCCL: {said}".strip()
            look_for(joined, number, candidates(joined), hits)
