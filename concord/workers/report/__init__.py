"""A finished run as one page for people: what it counts, which documents it shows, and how it is drawn."""
