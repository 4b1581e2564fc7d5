"""Settings and plugins that do not fit."""
