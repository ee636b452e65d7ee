"""Ray: a cluster (our own or another), its pool of workers, and their deaths. Imports from here import Ray."""

from concord.flows.environment import RAY, applied, without_widgets

with applied(RAY), without_widgets():
    import ray as ray
