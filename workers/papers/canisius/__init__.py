"""Canisius, Van den Bosch & Daelemans (2011): constraint-satisfaction inference over label n-grams."""
