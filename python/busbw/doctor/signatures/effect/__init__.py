"""Effects: what the other ranks and the tools tell after a fault."""
