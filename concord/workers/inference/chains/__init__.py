"""Engines that are exact by dynamic programming along the chain."""
