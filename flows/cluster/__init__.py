"""Ray: a cluster (our own or another), its pool of workers, and their deaths. Imports from here import Ray."""

from concord.flows.environment import RAY, applied

with applied(RAY):
    import ray as ray
