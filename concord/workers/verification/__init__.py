"""Verification of a finished run: its claims recomputed by numpy and plain Python, with no engine and no compiled
kernel.
"""
