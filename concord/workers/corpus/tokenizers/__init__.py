"""Tokenizers: they cut raw text into tokens and sentences."""
