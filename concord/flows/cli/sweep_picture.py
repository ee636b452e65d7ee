"""The picture of a sweep: a figure of matplotlib that a notebook shows without pyplot."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class SweepPicture(Figure):
    """A figure of matplotlib, which can be changed and saved like any other."""

    @property
    def png(self) -> bytes:
        """The content of a PNG file."""
        content = BytesIO()
        self.savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png
