"""The command line: one list of verbs, one module per verb."""
