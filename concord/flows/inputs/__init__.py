"""What a run starts from: its options and context, their checks, models from elsewhere, the Ray of an earlier run."""
