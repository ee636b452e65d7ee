"""What kinds of errors a user can mend. Every such error of concord's derives from one of these."""

from __future__ import annotations


class UsageError(ValueError):
    """A name that nothing has, or an option with a value that it does not take."""


class InputError(ValueError):
    """A corpus, model, constraint file or folder that cannot be used."""


class ServiceError(Exception):
    """Ray or MLflow cannot be started or reached."""
