"""What can be promised of a run after some of its answers were read."""
