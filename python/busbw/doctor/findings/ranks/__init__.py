"""What the ranks of a job did: which one waits, for whom, and why."""
