"""The distribution of concord: the name that installers know it by, which is not that of the package.

On PyPI ``concord`` is another project, so no message may tell anyone to install that.
"""

from __future__ import annotations

DISTRIBUTION = "concord-nlp"
"""Name in ``pyproject.toml`` and in the metadata of what is installed; the package and the command are ``concord``."""


PACKAGE = "concord"
"""Package that all of concord's modules are in."""


def with_extra(extra: str) -> str:
    """Requirement of concord with an extra of ``pyproject.toml``, for ``pip install``."""
    return f"{DISTRIBUTION}[{extra}]"
