"""Pictures and tables of runs: terminal text, Markdown, CSV, JSON, HTML, SVG and PNG."""
