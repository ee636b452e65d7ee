"""Which documents are held out, and how the best of many settings is looked for."""
