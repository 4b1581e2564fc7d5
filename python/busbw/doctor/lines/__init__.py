"""What the lines of a log say: each is looked at once, and what it tells of is kept."""
