"""Takes docs/images/report.png: the viewer on the page of the run that `make demo` leaves, in a real Chromium.

    python docs/report_picture.py [--demo demo/]

Needs Playwright and a Chromium: the picture is what a browser shows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from concord.flows.labelling.run_page import run_page

PICTURE = Path(__file__).parent / "images" / "report.png"
SIZE = {"width": 1100, "height": 760}
KIND = "differs from the model alone"


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"), help="folder that `make demo` made")
    demo = parser.parse_args().demo
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        page.write_bytes(run_page(str(demo / "out-certify"), gold=str(demo / "test")).data)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, device_scale_factor=1.25)
        tab.goto(page.as_uri())
        tab.select_option("#filters [name=kind]", KIND)
        tab.evaluate("document.getElementById('filters').scrollIntoView()")
        tab.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
