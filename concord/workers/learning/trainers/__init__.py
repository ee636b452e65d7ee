"""Trainers: functions that learn models from labelled documents."""
