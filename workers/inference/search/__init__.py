"""Engines that search over partial labellings (trees), and evolution over whole ones."""
