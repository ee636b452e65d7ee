"""What a finished run says, recomputed: by numpy and plain Python, no engine and no compiled kernel."""
