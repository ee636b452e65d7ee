"""Shards that are done, by whomever, and the work in this process. Imports from here import no Ray."""
