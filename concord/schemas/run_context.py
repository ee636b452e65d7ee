"""Services of a run in one object, which commands and flows pass on."""

from __future__ import annotations

from pydantic import Field

from concord.schemas.settings import Settings


class RunContext(Settings):
    """Services of a run: Ray for the work, and MLflow for records and models. Each field is an option of commands."""

    ray: str | None = Field(
        None, description="Address of a Ray cluster; local is this machine (default: RAY_ADDRESS, or local)."
    )
    workers: int | None = Field(None, ge=1, description="Number of Ray actors (default: one for each CPU).")
    tracking: str | None = Field(
        None, description="MLflow tracking URI (default: MLFLOW_TRACKING_URI, or SQLite in .concord/)."
    )


HERE = RunContext()
"""Ray on this machine, and MLflow as the environment names it."""
