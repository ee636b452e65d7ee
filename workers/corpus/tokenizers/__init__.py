"""What cuts raw text into tokens and sentences."""
