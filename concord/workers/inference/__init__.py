"""Engines: one file each, all behind `workers.inference.registry.SOLVERS`."""
