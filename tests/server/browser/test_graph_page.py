"""A graph on the page, in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.browser.test_browser import barriers, browser, playwright, say, tab
from tests.support.commands import Terminal
from tests.support.packages import install_packages
from tests.support.web import Web

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.thorough]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with a worker, in a folder of its own."""
    started = Web(Terminal(tmp_path_factory.mktemp("web")), (str(HERE / "trip"),))
    started.start()
    yield started
    started.close()


def node(page, name: str, status: str):
    """A node of the drawing, by what it says of itself."""
    return page.get_by_role("button", name=f"{name} {status}")


async def shown(page, **statuses: str) -> None:
    """Wait until nodes say that they have these statuses."""
    for name, status in statuses.items():
        await node(page, name, status.replace("_", " ")).wait_for()


async def test_the_graph_shows_a_run_as_it_goes(browser, web, tmp_path) -> None:
    """Each node with its status, live, and what waits is answered where it is."""
    axe = await install_packages("axe", tmp_path) / "node_modules" / "axe-core" / "axe.min.js"
    priced = web.terminal.folder / "priced"
    priced.unlink(missing_ok=True)
    async with tab(browser, web, reduced_motion="reduce") as page:
        await page.add_init_script(path=axe)
        await page.reload()
        await say(page, "Lisbon")
        await page.get_by_role("tab", name="Graph").click()
        await shown(page, flight="done", hotel="running", offers="join", ask="function")
        priced.touch()
        await shown(page, hotel="done", offers="done", ask="waits for a person", stop="function")
        await barriers(page)
        await node(page, "ask", "waits").click()
        details = page.get_by_role("region", name="Details of the node")
        await details.get_by_text("Pay 210 euros?").first.wait_for()
        await details.get_by_role("button", name="Yes").click()
        await shown(page, ask="done", decide="done", booking="waits", guests="waits for a person")
        await node(page, "guests", "waits").click()
        await details.get_by_role("heading", name="guests").wait_for()
        await details.get_by_role("button", name="Add").click()
        await details.get_by_label("Name").fill("Ann")
        await details.get_by_label("Age").fill("30")
        await details.get_by_label("Breakfast").check()
        await barriers(page)
        await details.get_by_role("button", name="Send answer").click()
        await shown(page, book="done, 1 failed attempt", booking="done")
        await node(page, "book", "done").click()
        await details.get_by_text("The line is busy.").first.wait_for()
        await details.get_by_text("Booked for Ann.").wait_for()
        await barriers(page)
        await page.get_by_role("tab", name="Timeline").click()
        await page.locator(".timeline").get_by_text("Booked for Ann.").first.wait_for()


async def test_the_graph_serves_the_keyboard_a_phone_and_earlier_runs(browser, web) -> None:
    """One stop of the Tab key, arrows from node to node; nothing is wider than the screen."""
    (web.terminal.folder / "priced").touch()
    async with tab(browser, web) as page:
        await say(page, "Lisbon")
        await page.get_by_role("tab", name="Graph").click()
        await shown(page, ask="waits for a person")
        await page.get_by_role("region", name="Graph", exact=True).focus()
        await page.keyboard.press("Tab")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        focused = page.locator(".graph-node:focus")
        assert (await focused.get_attribute("aria-label") or "").startswith("offers")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="offers").wait_for()
        assert await focused.get_attribute("aria-pressed") == "true"
        await page.keyboard.press(" ")
        await page.get_by_role("heading", name="offers").wait_for(state="hidden")
        await node(page, "ask", "waits").click()
        await page.locator(".graph-details").get_by_role("button", name="No").click()
        await shown(page, stop="done", booking="workflow")
        await page.get_by_role("textbox", name="Message").fill("Porto")
        await page.get_by_role("textbox", name="Message").press("Enter")
        await shown(page, ask="waits for a person", stop="function")
        await page.get_by_role("combobox", name="Run").select_option("Run 1")
        await shown(page, ask="done", stop="done")
        await page.set_viewport_size({"width": 360, "height": 740})
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(wide) <= 0
        await playwright.expect(page.locator(".graph-drawing")).to_be_visible()
