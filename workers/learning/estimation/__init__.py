"""Models learned as arrays and kernels: data, objectives, gradients, and the ways to an optimum."""
