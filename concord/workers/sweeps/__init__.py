"""Sweeps: cells of a file, what decides each of them, and how one is trained, labelled and measured."""
