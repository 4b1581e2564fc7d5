"""What the network between hosts is, has lost or does not give."""
