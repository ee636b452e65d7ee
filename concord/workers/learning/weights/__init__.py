"""Weights of constraints: counted, tuned, or learned from errors."""
