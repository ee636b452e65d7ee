"""Prefect: flows that keep secrets, and its API. To import from here imports Prefect."""

from concord.flows.environment import PREFECT, applied

with applied({name: PREFECT[name] for name in ("DO_NOT_TRACK", "PREFECT_SERVER_ANALYTICS_ENABLED")}):
    import prefect as prefect
