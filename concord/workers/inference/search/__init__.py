"""Engines that search over partial labellings (trees)."""
