"""Parts that only serve the comparison with one paper, in a folder for each; entry points in `pyproject.toml`."""
