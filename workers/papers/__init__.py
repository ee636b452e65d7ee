"""What serves the comparison with one paper only: a folder a paper. Entry points of `pyproject.toml` lead here."""
