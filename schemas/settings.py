"""Every option once: its default, range and meaning. YAML files and the command line parse into these."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EngineSettings(Settings):
    """Base of every engine's options; also the options of an engine that has none."""
