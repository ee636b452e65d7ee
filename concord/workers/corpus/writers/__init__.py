"""Writers: documents of a run in the forms of other programs."""
