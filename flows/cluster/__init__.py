"""Ray: a cluster of our own or of others, its pool of workers, and their deaths. To import from here imports Ray."""

from concord.flows.environment import RAY, applied

with applied(RAY):
    import ray as ray
