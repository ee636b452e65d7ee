"""Mining of constraints from documents with gold labels, and their judgement on unseen documents."""
