"""What a run shows while it is at work: progress, a line that changes in place, pages of text, waiting."""
