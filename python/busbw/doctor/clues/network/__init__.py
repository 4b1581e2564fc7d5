"""Addresses, ports, NICs and ways between hosts, as commands beside an error show them."""
