"""Takes docs/images/report.png and review.png from what `make demo` leaves, in a real Chromium.

The one is the viewer on the page of its run, the other a question of a review, on a phone.

    python docs/report_picture.py [--demo demo/]

Needs Playwright and a Chromium: the picture is what a browser shows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import concord
from concord.flows.commands.review_tasks import write_tasks
from concord.flows.commands.reviewing import open_review
from concord.flows.labelling.run_page import run_page

IMAGES = Path(__file__).parent / "images"
SIZE, PHONE = {"width": 1100, "height": 760}, {"width": 400, "height": 470}
KIND = "differs from the model alone"


def main() -> None:
    """Writes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"), help="folder that `make demo` made")
    demo = parser.parse_args().demo
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, device_scale_factor=1.25)
        tab.goto(report_of(demo, Path(folder)).as_uri())
        tab.select_option("#filters [name=kind]", KIND)
        tab.evaluate("document.getElementById('filters').scrollIntoView()")
        tab.screenshot(path=IMAGES / "report.png")
        tab = browser.new_page(viewport=PHONE, device_scale_factor=1.25)
        tab.goto(questions_of(demo, Path(folder)).as_uri())
        tab.keyboard.press("r")
        tab.evaluate("document.querySelector('.tally').scrollIntoView()")
        tab.screenshot(path=IMAGES / "review.png")
        browser.close()


def report_of(demo: Path, folder: Path) -> Path:
    """The page of the run."""
    page = folder / "report.html"
    page.write_bytes(run_page(str(demo / "out-certify"), gold=str(demo / "test")).data)
    return page


def questions_of(demo: Path, folder: Path) -> Path:
    """A page of questions about a run that says how sure it is."""
    run, page = str(folder / "out"), folder / "review.html"
    concord.reprocess(demo / "test", model=demo / "model", out=run, confidence="marginal", n_best=3, workers=1)
    with open_review(run, folder / "review", {"whole": 0.25}) as review:
        write_tasks(review, "page", page, count=20)
    return page


if __name__ == "__main__":
    main()
