"""Estimation of models over arrays: training data, objectives, gradients and optimisers."""
