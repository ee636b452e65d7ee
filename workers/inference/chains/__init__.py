"""Engines that are exact by dynamic programming."""
