"""The output folder: work in progress, what is published, and its readers."""
