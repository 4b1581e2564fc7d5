"""What this host is asked for: files of /proc and /sys, limits, devices, libraries."""
