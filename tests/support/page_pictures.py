"""Takes the pictures of the page: ``python -m tests.support.page_pictures [FOLDER]``.

It serves examples without a key, lets them wait for people, and writes what Debian's Chromium shows
to docs/images/page-*.png, or to FOLDER. The fonts are Debian's `fonts-inter` and
`fonts-jetbrains-mono`.
"""

import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Browser, sync_playwright

from tests.support.commands import Terminal
from tests.support.required import ROOT
from tests.support.waiting import until_true
from tests.support.web import CHROMIUM, Web

FOLDER = ROOT / "docs" / "images"
EXAMPLES = ("refund_approval", "report_artifacts", "help_desk")
LARGE = "Refund 180 euros for order A-17."


def main() -> None:
    """Take both pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with tempfile.TemporaryDirectory() as place:
        targets = tuple(str(ROOT / "examples" / name) for name in EXAMPLES)
        web = Web(Terminal(Path(place)), targets)
        web.start()
        try:
            with httpx.Client(base_url=web.url, timeout=60) as http:
                run = _runs(http)
            _take(web.url, run, folder)
        finally:
            web.close()


def _runs(http: httpx.Client) -> str:
    """Start runs, two of which wait for somebody; the page's address of the one to show."""
    _start(http, "help_desk", "Where is my order B-204?")
    _start(http, "report_artifacts", "Write the report for May")
    _start(http, "refund_approval", "Refund 45 euros for order C-31, please.")
    _start(http, "refund_approval", LARGE)
    inspections = _pending(http, "inspect_parcel", "inspect_parcel")
    (large,) = [one for one in inspections if one["arguments"]["order"] == "A-17"]
    query = {"app_name": large["appName"], "user_id": "ann", "session_id": large["sessionId"]}
    body = {"callId": large["callId"], "response": {"result": "The parcel is complete."}}
    path = f"/invocations/{large['invocationId']}"
    http.post(f"{path}/answers", params=query, json=body).raise_for_status()
    _pending(http, "inspect_parcel", "refund")
    run = urlencode({"run": large["invocationId"]})
    return f"/#/s/refund_approval/ann/{large['sessionId']}?{run}"


def _start(http: httpx.Client, app: str, text: str) -> None:
    """Start a run, and wait until it has ended or waits for somebody."""
    message = {"role": "user", "parts": [{"text": text}]}
    names = {"appName": app, "userId": "ann", "sessionId": uuid.uuid4().hex}
    body = {**names, "newMessage": message, "createSession": True}
    started = http.post("/invocations", json=body).raise_for_status().json()
    path = f"/invocations/{started['invocationId']}"
    # A worker that has just started takes a while to open it; it is unknown until then.
    until_true(lambda: http.get(path).json().get("status", "running") != "running")


def _pending(http: httpx.Client, *names: str) -> list[dict[str, Any]]:
    """The calls that wait for somebody, as soon as they are these."""

    def found() -> list[dict[str, Any]]:
        return http.get("/pending").raise_for_status().json()["pending"]

    until_true(lambda: sorted(one["name"] for one in found()) == sorted(names))
    return found()


def _take(url: str, run: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        _picture(browser, url + run, ".run-actions a", folder / "page-run.png", dark=False)
        _picture(browser, f"{url}/#/inbox", ".confirmation", folder / "page-inbox.png", dark=True)
        browser.close()


def _picture(browser: Browser, url: str, last: str, file: Path, *, dark: bool) -> None:
    """Write what is shown once the last element is there, with the list beside it."""
    page = browser.new_page(
        viewport={"width": 1200, "height": 760},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    page.goto(url)
    page.locator(last).wait_for()
    page.locator(".run-list .badge").first.wait_for()
    page.locator(".live.live").wait_for()
    page.screenshot(path=file)
    page.close()


if __name__ == "__main__":
    main()
