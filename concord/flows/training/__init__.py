"""Runs that train: a model, its settings chosen beforehand, learning from a pool, a challenger beside a champion."""
