"""Sweeps: cells that run side by side, their schedule, and the tables of papers."""
