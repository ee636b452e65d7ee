"""A real Chromium for pages: Debian's, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def chromium() -> Iterator[Any]:
    """A browser; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("there is no Chromium here")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def written(data: bytes, folder: Path) -> Path:
    """The page as a file."""
    (folder / "page.html").write_bytes(data)
    return folder / "page.html"
