"""A feature set: how words end."""

from __future__ import annotations

from concord.parts import Single, Source

ENDS = (Single(Source("tokens", "suffixes")), Single(Source("tokens", "suffixes"), -1))
