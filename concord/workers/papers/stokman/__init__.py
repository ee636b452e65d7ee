"""Stokman (2011): tagging under constraints by anytime search.

Evolution over whole labellings, his choice of a search by the length of a document, and his tagger, a hidden Markov
model of the second order. His discrepancy search is in `workers.inference.search`, since bounds on rows are made by it.
"""
