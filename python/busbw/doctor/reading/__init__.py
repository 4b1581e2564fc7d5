"""How files, pastes, archives and pipes become a snapshot: every byte of them is hostile until it is parsed."""
