"""Services of a run in one object, which commands and flows pass on."""

from __future__ import annotations

from pydantic import Field

from concord.schemas.settings import Settings


class RunContext(Settings):
    """Services of a run: Ray for the work, and MLflow for records and models. Each field is an option of commands."""

    ray: str | None = Field(
        None, description="Address of a Ray cluster; local is this machine (default: RAY_ADDRESS, or local)."
    )
    workers: int | None = Field(
        None,
        ge=0,
        description="Number of Ray actors; 0 works in this process, without Ray (default: one for each CPU, on a "
        "cluster also of nodes that join; 0 to label at most 500 documents where no cluster is named).",
    )
    tracking: str | None = Field(
        None, description="MLflow tracking URI (default: MLFLOW_TRACKING_URI, or SQLite in .concord/)."
    )


HERE = RunContext()
"""Ray on this machine, and MLflow as the environment names it."""
