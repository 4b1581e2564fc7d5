"""`busbw completion bash|zsh|fish`: prints a shell's script, or what is offered for the last of some words."""

from __future__ import annotations

from busbw.base.errors import UsageError
from busbw.base.words import Args

EPILOG = """\
examples:
  source <(busbw completion bash)
  busbw completion bash > ~/.local/share/bash-completion/completions/busbw
  busbw completion zsh > "${fpath[1]}/_busbw"
  busbw completion fish > ~/.config/fish/completions/busbw.fish
"""


def run(args: Args) -> int:
    """Print the script of one shell."""
    from busbw.cli.arguments.completion import SHELLS, lines, script

    if args.shell not in SHELLS:
        raise UsageError(f"there is completion for {', '.join(SHELLS)}, not for '{args.shell}'")
    print("\n".join(lines(args.shell, args.rest)) if args.rest else script(args.shell).rstrip())
    return 0
