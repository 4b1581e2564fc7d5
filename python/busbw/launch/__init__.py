"""Starting the engine: a job is described, planned as a pure value, and then executed."""
