"""`busbw completion bash|zsh|fish`: prints the script with which a shell completes busbw's words."""

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
    from busbw.cli.arguments.completion import SHELLS, script

    if args.shell not in SHELLS:
        raise UsageError(f"there is completion for {', '.join(SHELLS)}, not for '{args.shell}'")
    print(script(args.shell), end="")
    return 0
