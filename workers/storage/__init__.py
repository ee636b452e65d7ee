"""Files that are whole or not there, and data that carries its own digest."""
