"""The log of a Delta table over files that concord has written: format only, no storage."""
