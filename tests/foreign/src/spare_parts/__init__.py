"""A part of each kind that concord has: what `tests/test_foreign.py` installs, and what authors can begin from."""
