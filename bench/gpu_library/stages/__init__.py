"""One module a stage: each plans with pure functions, runs programs and keeps what they gave."""
