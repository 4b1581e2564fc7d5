"""What a finder of clues is: a function that looks beside a finding."""

from collections.abc import Callable, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

Finder = Callable[[Finding, Facts, Sequence[Text]], "Sharper | None"]
"""Of a finding, the facts and what logs show: a sharper title and cure; None where nothing is told."""
