"""What stands beside a finding and sharpens it: other lines, commands, figures, other findings."""
