"""Data that passes between the parts of concord: numpy, pyarrow and pydantic only."""
