"""Canisius, Van den Bosch & Daelemans (2011): constraint-satisfaction inference over label n-grams.

Their memory-based model, which keeps training tokens as they are and asks the nearest of them, by concord's own learner
or by TiMBL's; how its settings are tried; and their engine over candidate labels. What the model says is solved by any
engine, `window` first of all.
"""
