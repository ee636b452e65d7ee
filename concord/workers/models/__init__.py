"""Local models: train, save, load, and turn documents into potentials."""
