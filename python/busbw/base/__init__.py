"""What every room may use: errors, files, text and TOML."""
