"""Trainers: how models are learned from labelled documents."""
