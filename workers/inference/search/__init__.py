"""Engines that search a tree of partial labellings."""
