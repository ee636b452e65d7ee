"""Nights of an output folder: what each run came to, what it changed, and what MLflow keeps of it."""
