"""A run that labels: what a corpus, a model and rules are opened from, the plan, the run itself, and its evaluation."""
