"""argparse with this project's manners: errors in one sentence, the nearest option named, help that keeps its lines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from busbw.base.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError instead of printing its usage and leaving."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Turn argparse's complaint into one sentence that names the way to the help."""
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def understand(self, words: Sequence[str]) -> argparse.Namespace:
        """As parse_args, but an unknown option is answered with the nearest known one."""
        found, unknown = self.parse_known_args(words)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return found

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"'{word}' was not expected"
        from difflib import get_close_matches

        known = [option for action in self._actions for option in action.option_strings]
        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"there is no option '{word}'" + (f"; did you mean '{near[0]}'?" if near else "")
