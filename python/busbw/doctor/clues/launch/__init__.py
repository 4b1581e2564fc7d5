"""How ranks, tasks and pods were started, and which of them came late or alike."""
