"""What constraints do on a corpus and in one document."""
