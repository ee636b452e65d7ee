"""Source formats → documents: one file a format."""
