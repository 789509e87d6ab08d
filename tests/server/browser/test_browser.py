"""The page in a browser, on `durable-adk web` as a user starts it."""

import asyncio
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest

from durable_adk.apps import App
from durable_adk.server.routes import acceptance
from durable_adk.worker import WorkerOptions, worker
from tests.server.browser.desk.agent import root_agent
from tests.server.test_mounted import mounted
from tests.support.commands import Terminal
from tests.support.http_server import placed, session
from tests.support.packages import install_packages
from tests.support.required import has_program, interpreter, module
from tests.support.waiting import PATIENCE, stays, until
from tests.support.web import CHROMIUM, Web

playwright = module("playwright.async_api")
if not has_program("chromium"):
    pytest.skip("Chromium is missing", allow_module_level=True)

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(2)]
MOST = PATIENCE * 1000
"""Milliseconds for which Playwright waits."""
playwright.expect.set_options(timeout=MOST)
HERE = Path(__file__).parent
WORDS = [f"word{number}" for number in range(24)]
"""What the desk says when it is told to talk."""
SCREENSHOTS = "DURABLE_ADK_TESTS_SCREENSHOTS"
"""The variable with a folder to keep screenshots in."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with a worker, in a folder of its own."""
    ui = interpreter("adk").parents[1] / "types" / "google" / "adk" / "cli" / "browser"
    started = Web(
        Terminal(tmp_path_factory.mktemp("web")), (str(HERE / "desk"), "--adk-ui", str(ui))
    )
    started.start()
    yield started
    started.close()


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[object]:
    """Debian's Chromium."""
    async with playwright.async_playwright() as running:
        launched = await running.chromium.launch(
            executable_path="/usr/bin/chromium", args=CHROMIUM, timeout=MOST
        )
        yield launched
        await launched.close()


@asynccontextmanager
async def tab(browser, web, path="/", *, ours=True, **options):
    """A tab with a page; errors in its console and refused requests fail the test if it is ours."""
    context = await browser.new_context(viewport={"width": 1280, "height": 860}, **options)
    context.set_default_timeout(MOST)
    page = await context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and problems.append(said.text))
    page.on("response", lambda response: problems.extend(_problems(response)))
    await page.goto(web.url + path)
    try:
        yield page
    finally:
        await _kept(page)
        await context.close()
    # The browser itself writes to the console that a server was away, or which status it gave.
    said = ("net::", "Failed to load resource")
    assert not ours or [one for one in problems if not one.startswith(said)] == []


def _problems(response):
    """Refusals but of what is not there yet: a session whose first run waits, a server."""
    early = response.status == 404 and "/sessions/" in response.url
    if response.status >= 400 and response.status != 503 and not early:
        yield f"{response.status} {response.url}"


async def _kept(page) -> None:
    """Keep a screenshot, if that is asked for."""
    if folder := os.environ.get(SCREENSHOTS):
        name = re.sub(r"\W+", "-", os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0])
        await page.screenshot(path=Path(folder) / f"{name}.png")


async def say(page, text: str) -> None:
    """Write a message into a new session."""
    await page.get_by_role("link", name="New session").first.click()
    await page.locator("#new-app option").first.wait_for(state="attached")
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.get_by_role("textbox", name="Message").press("Enter")


async def seen(page, text: str) -> None:
    """Wait until a text is in the timeline."""
    await page.locator(".timeline").get_by_text(text, exact=True).first.wait_for()


async def ended(page, status: str = "completed") -> None:
    """Wait until the run has ended."""
    await page.locator(f".run-head > .status.{status}").wait_for()


async def numbers(page) -> list[int]:
    """The sequence numbers of the events shown, in order."""
    shown = await page.locator(".timeline .entry[data-seq]").evaluate_all(
        "all => all.map(each => Number(each.dataset.seq))"
    )
    return [number for number in shown if number]


async def words(page) -> list[str]:
    """The words of the agent that the timeline shows."""
    return re.findall(r"word\d+", await page.locator(".timeline").inner_text())


async def holds(page, expression: str) -> None:
    """Wait until an expression is true. The page's policy forbids what Playwright has for it."""
    await until(lambda: page.evaluate(expression))


def let_say(web: Web, number: int = len(WORDS)) -> None:
    """Let the desk say so many words."""
    new = web.terminal.folder / "words.new"
    new.write_text(f"{number}")
    new.replace(new.with_suffix(""))


async def stop_clock(page) -> None:
    """Stop the time of a page: it continues as far as a test says, however slow the machine is."""
    await page.clock.install(time=0)
    await page.clock.pause_at(3600)


async def test_a_call_is_approved_in_the_inbox(browser, web) -> None:
    """Chat, a tool call, its confirmation in the inbox of another tab, the answer in both."""
    async with tab(browser, web) as page, tab(browser, web, "/#/inbox") as inbox:
        await say(page, "pay")
        card = inbox.get_by_label("Approve pay")
        await card.get_by_text("amount").wait_for()
        await card.get_by_role("button", name="Approve").click()
        await seen(page, "pay is done.")
        await ended(page)
        await inbox.get_by_text("Nothing is waiting for you.").wait_for()
        assert len(await numbers(page)) == len(set(await numbers(page)))


async def test_a_call_that_is_gone_leaves_the_inbox(browser, web) -> None:
    """An answer that is refused says why; a call whose session is deleted is asked no more."""
    said = {"error": {"type": "NotFoundError", "message": "There is no such call."}}
    async with tab(browser, web, ours=False) as page:  # the console names a refusal
        await say(page, "pay")
        await page.get_by_label("Approve pay").wait_for()
        session = re.search(r"#/s/(desk)/(user)/([^?]+)", page.url)
        row = page.locator(f".run-list [href*='{session[3]}']")
        await page.get_by_role("link", name="Inbox").click()
        await page.route("**/answers?*", lambda route: route.fulfill(status=404, json=said))
        card = page.locator(".answer", has_text=session[3])
        await card.get_by_role("button", name="Approve").click()
        await page.get_by_text("pay: There is no such call.").wait_for()
        place = "{}/apps/{}/users/{}/sessions/{}".format(web.url, *session.groups())
        await page.request.delete(place)
        for gone in (card, row):
            await playwright.expect(gone).to_have_count(0)


async def test_a_call_is_rejected_by_key(browser, web) -> None:
    """The keyboard is enough: n, a message, r."""
    async with tab(browser, web) as page:
        await page.keyboard.press("n")
        await page.locator("#new-app option").first.wait_for(state="attached")
        await page.get_by_role("textbox", name="Message").fill("pay")
        await page.keyboard.press("Enter")
        await page.get_by_label("Approve pay").wait_for()
        await page.get_by_role("textbox", name="Message").press("Escape")
        await page.keyboard.press("r")
        await page.get_by_text("Rejected pay").wait_for()
        await ended(page)


async def test_the_page_works_in_browsers_of_2023(browser, web) -> None:
    """Those of July, such as Firefox ESR 115, lack what later ones have."""
    async with tab(browser, web) as page:
        await page.add_init_script(
            """
            const lacks = (place, ...names) => names.forEach((name) => delete place[name]);
            lacks(AbortSignal, "any");
            lacks(Array, "fromAsync");
            lacks(Element.prototype, "checkVisibility", "showPopover");
            lacks(Intl, "DurationFormat", "Segmenter");
            lacks(Iterator.prototype, "drop", "every", "filter", "find", "flatMap", "forEach");
            lacks(Iterator.prototype, "map", "reduce", "some", "take", "toArray");
            lacks(JSON, "isRawJSON", "rawJSON");
            lacks(Map, "groupBy");
            lacks(Object, "groupBy");
            lacks(Promise, "try", "withResolvers");
            lacks(ReadableStream, "from");
            lacks(ReadableStream.prototype, "values", Symbol.asyncIterator);
            lacks(Set.prototype, "difference", "intersection", "symmetricDifference", "union");
            lacks(Set.prototype, "isDisjointFrom", "isSubsetOf", "isSupersetOf");
            lacks(String.prototype, "isWellFormed", "toWellFormed");
            lacks(URL, "canParse", "parse");
            lacks(Document.prototype, "startViewTransition");
            lacks(window, "Iterator", "navigation", "requestIdleCallback", "scheduler");
            """
        )
        await page.reload()
        await say(page, "pay")
        await page.get_by_label("Approve pay").wait_for()
        await page.get_by_role("textbox", name="Message").press("Escape")
        await page.keyboard.press("a")
        await ended(page)
        await page.locator(".runs [aria-current].completed").wait_for()
        await page.get_by_role("button", name="Sessions").click()
        sessions = page.get_by_role("navigation", name="Sessions")
        await sessions.locator("[aria-current].completed").wait_for()


async def test_a_key_decides_only_a_call_that_is_chosen(browser, web) -> None:
    """Not the first of several; once for a press; what is chosen after that shows it."""
    ids = {"appName": "desk", "userId": "u", "sessionId": "s", "invocationId": "e"}
    about = ids | {"kind": "confirmation", "name": "pay", "requestedAt": 1}
    calls = [about | {"callId": f"c{number}"} for number in range(4)]
    sent: list[str] = []

    async def answer(route) -> None:
        sent.append(route.request.post_data_json["callId"])
        calls[:] = [one for one in calls if one["callId"] not in sent]
        await route.fulfill(json={})

    async def listed(route) -> None:
        await route.fulfill(json={"pending": calls})

    async with tab(browser, web) as page:
        await page.route(re.compile("/pending"), listed)
        await page.route(re.compile("/answers"), answer)
        await page.get_by_role("link", name="Inbox").click()
        cards = page.locator("#main .answer")
        await playwright.expect(cards).to_have_count(4)
        await page.locator("#main").focus()
        await page.keyboard.press("a")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("r")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.down("a")
        await playwright.expect(cards).to_have_count(3)
        await page.keyboard.down("a")  # it is held, and repeats
        await page.keyboard.up("a")
        await playwright.expect(page.locator("[data-call=c2]")).to_be_focused()
        await page.locator("[data-call=c2]").get_by_role("button", name="Reject").click()
        await playwright.expect(cards).to_have_count(2)
        last = page.locator("[data-call=c3]")
        await playwright.expect(last).to_be_focused()
        assert await last.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
        await page.keyboard.press("a")
        await playwright.expect(cards).to_have_count(1)
        await page.keyboard.press("r")
        await page.get_by_text("Nothing is waiting for you.").wait_for()
        await playwright.expect(page.get_by_role("heading", name="Inbox")).to_be_focused()
        assert sent == ["c1", "c2", "c3", "c0"]


async def test_a_card_says_who_asks_and_what_happens_without_an_answer(browser, web) -> None:
    """The agent, what its run began with, and the decision at the deadline, if that is known."""
    ids = {"appName": "desk", "userId": "u", "sessionId": "s", "invocationId": "e"}
    about = ids | {"kind": "confirmation", "name": "pay", "requestedAt": 1, "author": "cashier"}
    rejects = about | {"callId": "c1", "deadline": 4e9, "onDeadline": "reject"}
    fails = about | {"callId": "c2", "deadline": 4e9, "onDeadline": "fail"}
    calls = [rejects | {"message": "Pay Ann."}, fails, about | {"callId": "c3", "deadline": 4e9}]
    async with tab(browser, web, timezone_id="Europe/Berlin") as page:
        await page.route(re.compile("/pending"), lambda one: one.fulfill(json={"pending": calls}))
        await page.get_by_role("link", name="Inbox").click()
        cards = page.locator("#main .answer")
        for number, words in enumerate(
            (
                ("Called by cashier for “Pay Ann.”", "Rejected automatically on 2096-10-02 09:06"),
                ("Called by cashier", "The run fails on 2096-10-02 09:06 if nobody answers."),
                ("Called by cashier", "Decided automatically on 2096-10-02 09:06"),
            )
        ):
            for text in words:
                await playwright.expect(cards.nth(number)).to_contain_text(text)


async def test_a_long_running_call_is_answered(browser, web) -> None:
    """The form is that of the answer, or takes JSON; the run continues with it."""
    async with tab(browser, web) as page:
        await say(page, "ask")
        card = page.get_by_label("Answer ask")
        await card.get_by_role("button", name="Answer with JSON").click()
        await card.get_by_label("JSON").fill('{"fish": "trout"}')
        await page.goto(f"{web.url}/#/s/%E0%A4%A")  # no address; what is written is kept
        await page.get_by_text("Nothing selected.").wait_for()
        await page.go_back()
        written = await card.get_by_label("JSON").input_value()
        assert json.loads(written) == {"fish": "trout"}
        await card.get_by_role("button", name="Send answer").click()
        await seen(page, '{"fish":"trout"}')
        await seen(page, "ask is done.")
        await ended(page)


async def test_an_artifact_and_the_state_are_shown(browser, web) -> None:
    """What tools and others saved is listed as it is, and again when it changes."""
    async with tab(browser, web) as page:
        await say(page, "draw")
        await ended(page)
        place = f"{web.url}/apps/desk/users/user/sessions"
        session = re.search(r"#/s/desk/user/([^?]+)", page.url)[1]
        notes = {"filename": "notes.txt", "artifact": {"text": "written " * 100_000}}
        await page.request.post(f"{place}/{session}/artifacts", data=notes)
        await page.get_by_role("tab", name="Artifacts").click()
        picture = page.locator(".panel img").first
        await playwright.expect(picture).to_have_js_property("naturalWidth", 1)
        await page.get_by_role("button", name="notes.txt").click()
        await page.locator(".panel pre").get_by_text("written written").wait_for()
        await page.get_by_role("button", name="picture.png").click()
        message = {"role": "user", "parts": [{"text": "draw"}]}
        run = {"appName": "desk", "userId": "user", "sessionId": session, "newMessage": message}
        await page.request.post(f"{web.url}/invocations", data=run)
        await page.get_by_role("button", name="version 1").wait_for()
        await page.get_by_role("tab", name="State").click()
        state = page.get_by_role("tabpanel", name="State")
        await state.get_by_text("a fish").first.wait_for()
        await page.request.post(place, data={"sessionId": "other", "state": {"user:name": "Ann"}})
        for number, name in ((session, "Bea"), ("other", "Cy")):
            change = {"stateDelta": {"user:name": name}}
            await page.request.patch(f"{place}/{number}", data=change)
        await page.get_by_role("tab", name="Timeline").click()
        # It is in sight, and no run: the server would answer 404 if it was asked about it.
        changed = page.locator(".run", has_text="user:name")
        await changed.locator(".run-head").wait_for(state="hidden")
        await page.get_by_role("textbox", name="Message").fill("draw")
        await page.get_by_role("textbox", name="Message").press("Enter")
        await playwright.expect(page.locator(".run .status.completed")).to_have_count(3)
        await page.get_by_role("tab", name="State").click()
        await state.get_by_text("1 change, changed elsewhere").wait_for()
        assert await state.locator("[data-name='user:name'] .value").inner_text() == "Cy"


async def test_a_failure_is_told_once_and_without_colours(browser, web) -> None:
    """The timeline has its words in one place; the list and the run's head name the status."""
    async with tab(browser, web) as page:
        await say(page, "fail")
        await seen(page, "The run failed.")
        assert await page.get_by_text("The desk is closed.").count() == 1
        await ended(page, "failed")
        await page.locator(".entry.attempt .more").first.click()
        details = page.locator(".entry.attempt .details dd", has_text=re.compile(r"^20\d\d-"))
        await playwright.expect(details).to_have_count(2)  # when it began and ended, as people read
        row = page.get_by_role("navigation", name="Runs").get_by_role("link").first
        await playwright.expect(row).to_contain_text("failed · desk")


async def test_a_user_signs_in_and_out(browser, web) -> None:
    """A refused token is said to be refused, one may try again, and sends only as oneself."""

    async def answer(route) -> None:
        known = await route.request.header_value("authorization") == "Bearer right"
        said = {"error": {"type": "AuthenticationError", "message": "It is unknown."}}
        alice = {"userId": "alice", "isOperator": False}
        await route.fulfill(status=200 if known else 401, json=alice if known else said)

    async with tab(browser, web, ours=False) as page:
        await page.route("**/caller", answer)
        await page.reload()
        await page.get_by_label("Bearer token").fill("wrong")
        await page.keyboard.press("Enter")
        await page.get_by_text("The token was refused. It is unknown.").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("Bearer token").fill("right")
        await page.keyboard.press("Enter")
        await page.get_by_text("Signed in as alice", exact=True).wait_for()
        assert await page.get_by_label("User").locator("visible=true").count() == 0
        await say(page, "draw")
        await seen(page, "draw is done.")
        assert "/desk/alice/" in page.url
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Bearer token").wait_for()


async def test_a_page_without_apps_waits_for_them(browser, web) -> None:
    """It asks less and less often, leaves alone what is typed, and says what the caller can do."""
    apps: list[str] = []
    caller = {"userId": "olga", "isOperator": True}

    async def listed(route) -> None:
        await route.fulfill(json=apps)

    async def named(route) -> None:
        await route.fulfill(json=caller)

    async with tab(browser, web) as page:
        await page.route("**/list-apps", listed)
        await page.route("**/caller", named)
        await page.add_init_script(
            """window.waits = [];
            window.waited = new Promise((resolve) => {
                const others = window.setTimeout;
                window.setTimeout = (act, wait, ...more) => {
                    if (act.name !== "loadApps") return others(act, wait, ...more);
                    if (window.waits.push(wait) === 7) resolve();
                    return others(act, 5);
                };
            });"""
        )
        await page.reload()
        await page.get_by_role("link", name="New session").first.click()
        await page.get_by_text("No apps yet: no worker serves one").wait_for()
        user = page.locator(".scope input")
        await user.press_sequentially("ali")
        await page.evaluate("window.waited")
        waits = await page.evaluate("window.waits.slice(0, 7)")
        assert waits == [1000, 2000, 4000, 8000, 16000, 30000, 30000]
        apps.append("desk")
        await page.locator("#new-app option").get_by_text("desk").wait_for(state="attached")
        await page.locator(".live.live").wait_for()
        apps.append("other")
        message = {"role": "user", "parts": [{"text": "draw"}]}
        run = {"appName": "desk", "userId": "user", "sessionId": "first", "createSession": True}
        await page.request.post(f"{web.url}/invocations", data=run | {"newMessage": message})
        await page.locator(".scope option").get_by_text("other").wait_for(state="attached")
        assert await user.input_value() == "ali"
        await page.get_by_role("textbox", name="Message").fill("draw")
        await page.locator("#new-app").select_option("other")
        await page.reload()  # as after a new sign-in, too
        await page.locator("#new-app option").get_by_text("other").wait_for(state="attached")
        assert await page.locator("#new-app").input_value() == "other"
        caller["isOperator"] = False
        apps.clear()
        await page.reload()
        await page.get_by_text("You have no apps yet. Ask the operator of this server.").wait_for()


async def test_a_session_without_a_run_is_found_and_deleted(browser, web) -> None:
    """The list of sessions has it; it is deleted once that was confirmed, and is shown no more."""
    async with tab(browser, web, ours=False) as page:  # the console names what is gone
        place = f"{web.url}/apps/desk/users/user/sessions"
        for name in ("empty1", "empty2"):
            await page.request.post(place, data={"sessionId": name})
        await page.get_by_role("button", name="Sessions").click()
        await page.get_by_role("searchbox", name="Search sessions").fill("EMPTY")
        await page.get_by_role("link", name="empty1").click()
        await page.get_by_text("A new session.").wait_for()
        await page.get_by_role("button", name="Delete empty1").click()
        assert (await page.request.get(f"{place}/empty1")).ok
        await page.keyboard.press("Enter")
        await page.get_by_text("Nothing selected.").wait_for()
        listed = page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
        await playwright.expect(listed).to_have_count(1)
        assert [(await page.request.get(f"{place}/empty{n}")).status for n in (1, 2)] == [404, 200]


async def test_a_session_is_listed_by_what_it_began_with(browser, web) -> None:
    """It has the status of its newest run and how many calls wait, by one request for all.

    Another look asks for what has changed only, and for all again if that may be more.
    """
    where = {"appName": "desk", "userId": "user", "sessionId": "s1", "updateTime": 1}
    first = {"invocationId": "e1", "status": "failed", "message": "draw a fish", "startTime": 1}
    second = {"invocationId": "e2", "status": "paused", "message": "and pay", "startTime": 2}
    second |= where | {"pending": 2}
    elsewhere = {"invocationId": "e3", "status": "failed", "startTime": 3, "appName": "other"}
    runs = [second, where | first, where | elsewhere]
    sessions = [
        {"id": name, "appName": "desk", "userId": "user", "state": {}, "lastUpdateTime": 1}
        for name in ("s1", "s2")
    ]
    async with tab(browser, web) as page:
        asked: list[dict] = []

        async def answer(route) -> None:
            asked.append(dict(parse_qsl(urlsplit(route.request.url).query)))
            few = asked[-1]["limit"] == "40"
            await route.fulfill(json={"invocations": runs[:2] if few else runs})

        await page.route(
            re.compile("/users/user/sessions$"), lambda one: one.fulfill(json=sessions)
        )
        await page.route(re.compile("/invocations.*user_id"), answer)
        await page.get_by_role("button", name="Sessions").click()
        rows = page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
        await playwright.expect(rows).to_have_count(2)
        row = rows.filter(has_text="draw a fish")
        await playwright.expect(row).to_contain_text("paused")
        await playwright.expect(row).to_contain_text("2 waiting")
        for status, changed, limits in (("running", 1, ["40"]), ("completed", 2, ["40", "200"])):
            asked.clear()
            for at, run in enumerate(runs[:changed]):
                now = {"status": status, "updateTime": run["updateTime"] + 1, "pending": 0}
                runs[at] = run | now
            await page.get_by_role("button", name="Sessions").click()
            await playwright.expect(row).to_contain_text(status)
            await playwright.expect(row.locator(".badge")).to_have_count(0)
            assert [one["limit"] for one in asked][: len(limits)] == limits
        assert {(one["app_name"], one["user_id"]) for one in asked} == {("desk", "user")}
        await page.get_by_role("searchbox", name="Search sessions").fill("a FISH")
        await playwright.expect(rows).to_have_count(1)


async def test_the_list_of_runs_stays_as_long_as_it_is(browser, web) -> None:
    """However many are shown, a new look at them keeps their number, and marks the shown one only.

    Another search begins at the top, and has no rows of the one before.
    """
    free = asyncio.Event()
    free.set()
    runs = [
        {"appName": "desk", "userId": f"u{number}", "sessionId": "s", "invocationId": f"e{number}"}
        | {"status": "completed", "message": f"run {number}", "updateTime": 1}
        for number in range(500)
    ]

    async def answer(route) -> None:
        query = dict(parse_qsl(urlsplit(route.request.url).query))
        if query.get("query") == "other":
            await route.fulfill(json={"invocations": runs[:1]})
            return
        if "page_token" in query:
            await free.wait()
        begin = int(query.get("page_token", 0))
        end = begin + int(query["limit"])
        await route.fulfill(json={"invocations": runs[begin:end], "nextPageToken": str(end)})

    async with tab(browser, web, ours=False) as page:  # there are no such sessions
        await page.route(re.compile(r"/invocations\?"), answer)
        await page.reload()
        rows = page.get_by_role("navigation", name="Runs").get_by_role("listitem")
        for shown in range(40, 281, 40):
            await playwright.expect(rows).to_have_count(shown)
            if shown < 280:
                await page.get_by_role("button", name="Show more").click()
        runs.insert(0, {**runs[0], "invocationId": "e-new", "message": "newest"})
        await page.get_by_role("button", name="Runs").click()
        await page.get_by_role("link", name="newest").wait_for()
        await playwright.expect(rows).to_have_count(280)
        await page.get_by_role("link", name="run 270").click()
        await playwright.expect(page.locator(".run-list [aria-current]")).to_have_count(1)
        search = page.get_by_role("searchbox", name="Search runs")
        await search.fill("run")
        await playwright.expect(rows).to_have_count(40)
        free.clear()
        async with page.expect_response(re.compile("page_token")):
            await page.get_by_role("button", name="Show more").click()
            await search.fill("other")
            await playwright.expect(rows).to_have_count(1)
            free.set()

        async def is_alone() -> bool:
            return await rows.count() == 1

        await stays(is_alone)


async def test_a_search_goes_on_where_the_server_stops(browser, web) -> None:
    """It says how many runs were looked at; what comes of it outlasts another look at the list."""
    run = {"appName": "desk", "userId": "u", "sessionId": "s", "invocationId": "e"}
    run |= {"status": "completed", "message": "an old fish", "updateTime": 1}

    async def answer(route) -> None:
        query = dict(parse_qsl(urlsplit(route.request.url).query))
        at = int(query.get("page_token", 0)) + 1
        found = [run] if at == 3 or "query" not in query else []
        await route.fulfill(json={"invocations": found, "nextPageToken": str(at)})

    async with tab(browser, web) as page:
        await page.route(re.compile(r"/invocations\?"), answer)
        side = page.get_by_role("navigation", name="Runs")
        await page.get_by_role("searchbox", name="Search runs").fill("fish")
        await side.get_by_text("None among the newest 2,000 runs.").wait_for()
        await side.get_by_role("button", name="Search further").click()
        await side.get_by_text("None among the newest 4,000 runs.").wait_for()
        await side.get_by_role("button", name="Search further").click()
        await side.get_by_role("link", name="an old fish").wait_for()
        async with page.expect_response(re.compile("page_token=2")):
            await page.get_by_role("button", name="Runs").click()
        await playwright.expect(side.get_by_role("button", name="Show more")).to_be_visible()
        await playwright.expect(side.get_by_role("link", name="an old fish")).to_be_visible()


async def test_a_call_says_which_agent_and_model_made_it(browser, web) -> None:
    """A model's answer that only calls a tool has its agent, model, tokens, time and request.

    The page says so to users that are no operators, and does not suggest another try.
    """
    async with tab(browser, web) as page:
        await say(page, "pay")
        facts = page.locator(".entry.call .by .facts")
        await playwright.expect(facts).to_have_text(re.compile(r"^words-1 · 15 tokens · about \d"))
        assert await page.locator(".entry.call .author").all_inner_texts() == ["desk"]
        await page.locator(".entry.call .more").click()
        await page.get_by_text("What the model was asked").click()
        await page.get_by_text("1 message", exact=True).click()
        await page.locator(".asked pre").get_by_text("pay", exact=True).wait_for()
        place = page.url.removeprefix(web.url)
    denied = {"error": {"type": "PermissionDeniedError", "message": "Only an operator may."}}
    async with tab(browser, web, place, ours=False) as page:  # the console names a refusal
        await page.route("**/requests/*", lambda route: route.fulfill(status=403, json=denied))
        await page.locator(".entry.call .more").click()
        await page.get_by_text("What the model was asked").click()
        await page.locator(".asked").get_by_text("Only an operator may.").wait_for()
        assert await page.locator(".asked").get_by_role("button").count() == 0


async def test_an_agent_that_runs_as_a_tool_shows_its_steps(browser, web) -> None:
    """Below its call, also while it runs; its tokens and their price are among the run's."""
    (web.terminal.folder / "rested").unlink(missing_ok=True)
    async with tab(browser, web) as page:
        await page.evaluate("localStorage.setItem('durable-adk.prices', '{\"*\":[1,3]}')")
        await say(page, "expert rest")
        head = page.get_by_role("button", name="Steps of expert")
        await playwright.expect(head).to_contain_text("running")
        await head.click()
        steps = page.locator(".entry.call .entry")
        await playwright.expect(steps).to_have_count(2)
        await steps.get_by_text("has not returned yet").wait_for()
        (web.terminal.folder / "rested").touch()
        await ended(page)
        await playwright.expect(head).to_contain_text("completed")
        await playwright.expect(head).to_contain_text("2 model calls · 30 tokens")
        await playwright.expect(steps).to_have_count(3)
        assert await steps.locator(".author").all_inner_texts() == ["Question", "expert", "expert"]
        assert await numbers(page) == [1, 2, 4]  # those of the session
        facts = page.locator(".run-head > .facts")
        own = "4 model calls · 60 tokens · $0 · including 30 tokens, $0 in agent tools"
        await playwright.expect(facts).to_contain_text(own)
        await playwright.expect(page.locator(".session-head > .facts")).to_contain_text("60 tokens")
        await steps.nth(1).locator(".more").click()
        await page.get_by_text("What the model was asked").click()
        await page.get_by_text("1 message", exact=True).click()
        await page.locator(".asked pre").get_by_text("rest", exact=True).wait_for()


async def test_a_price_that_cannot_be_read_is_said_so(browser, web) -> None:
    """The dialog stays open, with what was written, until every line can be read."""
    async with tab(browser, web) as page:
        await page.get_by_role("button", name="Prices").click()
        box = page.get_by_role("textbox", name="Prices")
        await box.fill("gemini 1 2\nother $0.30 2")
        await page.get_by_role("button", name="Save").click()
        alert = page.get_by_role("alert")
        await playwright.expect(alert).to_contain_text("Line 2 cannot be read: other $0.30 2.")
        await playwright.expect(box).to_be_focused()
        assert await page.evaluate("localStorage.getItem('durable-adk.prices')") is None
        await box.fill("gemini 1 2\nother 0.30 2")
        await page.get_by_role("button", name="Save").click()
        await box.wait_for(state="detached")
        kept = await page.evaluate("JSON.parse(localStorage.getItem('durable-adk.prices'))")
        assert kept == {"gemini": [1, 2], "other": [0.3, 2]}


async def test_a_session_is_taken_back(browser, web) -> None:
    """A rewound run says so; the rewind has no status, and nothing is asked about it."""
    async with tab(browser, web) as page:
        await say(page, "draw")
        await ended(page)
        await page.get_by_role("button", name="Rewind").click()
        await page.keyboard.press("Enter")
        await page.get_by_text("The session was rewound to").wait_for()
        await page.locator(".run.rewound .status").get_by_text("rewound").wait_for()
        assert await page.locator(".status", has_text="…").is_visible() is False
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        await page.reload()
        await page.get_by_role("link", name="Temporal").first.wait_for()
        found = (re.match("/invocations/e-[^/]+", path) for path in asked)
        assert len({one[0] for one in found if one}) == 1


async def show_session(page, *items: dict, caller: str = "u") -> None:
    """Show a session of these items, which no server has; what is sent is kept in `window.sent`.

    The first of them gets no answer.
    """
    await page.evaluate(
        """async ([caller, ...items]) => {
            const { SessionView } = await import(new URL("page/session.js", location.href));
            const text = items.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
            const start = (stream) => stream.enqueue(new TextEncoder().encode(text));
            const others = window.fetch;
            window.sent = [];
            window.fetch = async (url, options = {}) => {
                const { method, headers, body } = options;
                const { pathname, search } = url;
                if (!`${pathname}${search}/`.includes("stubbed")) return others(url, options);
                const action = pathname.split("/").at(-1);
                if (method === "POST") {
                    window.sent.push([action, headers["idempotency-key"], JSON.parse(body)]);
                    if (window.sent.length === 1) throw new TypeError("It is lost.");
                }
                if (action === "events") return new Response(new ReadableStream({ start }));
                if (action === "queue") return Response.json([]);
                const { status } = items.find((one) => one.invocationId === action) ?? {};
                return Response.json({ status, invocationId: action, pending: [] });
            };
            const key = { appName: "a", userId: "u", sessionId: "stubbed" };
            const view = new SessionView(key, null, () => ({ userId: caller }));
            document.getElementById("main").replaceChildren(view.element);
        }""",
        [caller, *items],
    )


async def test_a_steering_whose_answer_is_lost_is_sent_again_under_its_key(browser, web) -> None:
    """So that it is delivered once."""
    async with tab(browser, web) as page:
        await show_session(page, {"type": "status", "status": "running", "invocationId": "e"})
        await page.get_by_role("textbox", name="Message").fill("faster")
        await page.get_by_role("button", name="Steer").click()
        await page.locator(".composer.busy").wait_for(state="detached")
        first, again = await page.evaluate("window.sent")
        assert first == again
        assert first[0] == "steer"
        assert len(first[1]) == 32
        assert first[2]["message"]["parts"] == [{"text": "faster"}]


async def test_a_session_says_who_wrote_and_who_answered(browser, web) -> None:
    """An operator who reads somebody's session wrote none of it; an answer names its author."""
    about = {"id": "c", "name": "pay", "args": {}}
    asked = about | {"id": "q", "name": "adk_request_confirmation"}
    asked["args"] = {"originalFunctionCall": about}
    decided = asked | {"response": {"confirmed": False}}
    content = [("text", "hi"), ("functionCall", about), ("functionCall", asked)]
    content.append(("functionResponse", decided))
    items = [
        {
            "type": "event",
            "seq": seq,
            "event": {"id": f"{seq}", "invocationId": "e", "timestamp": 1},
        }
        for seq in range(1, 5)
    ]
    for item, (kind, part) in zip(items, content, strict=True):
        author = "a" if kind == "functionCall" else "user"
        item["event"] |= {"author": author, "content": {"parts": [{kind: part}]}}
    items[3]["event"]["customMetadata"] = {"adk_answered_by": {"user": "olga"}}
    async with tab(browser, web) as page:
        for caller, author, answerer in (("u", "You", "olga"), ("olga", "u", "you")):
            await show_session(page, *items, caller=caller)
            line = page.locator(".entry.request .line")
            await playwright.expect(line).to_contain_text(f"Rejected pay by {answerer} after 0 ms")
            assert await page.locator(".message .author").all_inner_texts() == [author]


async def test_a_session_is_taken_back_once(browser, web) -> None:
    """However often somebody clicks; they may also keep it, or try again what has failed."""
    event = {"id": "1", "author": "user", "invocationId": "e", "content": {"parts": [{}]}}
    status = {"type": "status", "status": "completed", "invocationId": "e"}
    async with tab(browser, web) as page:
        await show_session(page, {"type": "event", "seq": 1, "event": event}, status)
        rewind = page.get_by_role("button", name="Rewind")
        await rewind.click(click_count=3)
        await page.get_by_role("button", name="Keep").click()
        await playwright.expect(rewind).to_be_focused()
        assert await page.evaluate("window.sent") == []
        await rewind.click()
        await page.get_by_role("button", name="Confirm").click()
        await page.get_by_text("The server does not answer.").wait_for()
        await rewind.click()
        sure = page.get_by_role("button", name="Confirm")
        await sure.evaluate("one => [1, 2, 3].forEach(() => one.click())")
        await sure.wait_for(state="detached")
        assert [what for what, *_ in await page.evaluate("window.sent")] == ["rewind", "rewind"]


async def test_a_message_that_waits_is_shown_again_and_cancelled(browser, web) -> None:
    """Also by a page that did not send it, by its id; once it is cancelled no run comes of it."""
    async with tab(browser, web) as page:
        let_say(web, 2)
        await say(page, "talk")
        await page.get_by_text("word1").first.wait_for()
        await page.get_by_role("textbox", name="Message").fill("draw")
        await page.get_by_role("textbox", name="Message").press("Enter")
        waits = page.get_by_text("Waiting for the current run to end: draw")
        await waits.wait_for()
        await page.reload()
        await waits.wait_for()
        await page.evaluate("sessionStorage.clear()")
        await page.reload()
        waits = page.get_by_text("Waiting for the current run to end: e-")
        await waits.wait_for()
        await page.get_by_role("button", name="Cancel e-").click()
        await playwright.expect(waits).to_have_count(0)
        let_say(web)
        await ended(page)
        await page.reload()
        await ended(page)
        assert await page.locator(".run").count() == 1
        assert await waits.count() == 0


async def test_an_answer_is_kept_until_it_is_sent(browser, web) -> None:
    """So is a message, by its session. What a form marks as needed is; the field says so."""
    async with tab(browser, web) as page:
        await say(page, "ask")
        card = page.get_by_label("Answer ask")
        await card.get_by_role("button", name="Send answer").click()
        await card.get_by_text("Required", exact=True).wait_for()
        message = page.get_by_role("textbox", name="Message")
        await card.get_by_label("result").fill("a trout")
        await message.fill("and then")
        await page.get_by_role("link", name="New session").first.click()
        await playwright.expect(message).to_have_value("")
        await page.go_back()
        await card.get_by_role("button", name="Send answer").wait_for()
        await playwright.expect(card.get_by_label("result")).to_have_value("a trout")
        await playwright.expect(message).to_have_value("and then")
        async with page.expect_request_finished(lambda one: "/answers" in one.url):
            await card.get_by_role("button", name="Send answer").click()
        await seen(page, "ask is done.")
        kept = await page.evaluate(
            "Object.entries(sessionStorage).filter(([name]) => /draft/.test(name))"
        )
        assert [json.loads(text)["text"] for _, text in kept] == ["and then"]


async def test_a_message_under_way_outlives_its_view(browser, web) -> None:
    """It is shown, and sent on by the next view at its place and after a reload, under its key.

    One that was refused is kept as text with its key.
    """
    keys: list[str] = []

    async def answer(route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        await (route.fulfill(status=400, json={}) if refuses else route.abort())

    async with tab(browser, web, ours=False) as page:  # the console names a refusal
        refuses = False
        status, box = page.locator(".composer-status"), page.get_by_role("textbox", name="Message")
        await page.route(re.compile("/invocations$"), answer)
        await say(page, "draw")
        await playwright.expect(status).to_contain_text("Sending again… draw")
        await page.get_by_role("link", name="Inbox").click()
        await page.get_by_role("heading", name="Inbox").wait_for()
        await page.go_back()
        await playwright.expect(status).to_contain_text("Sending again… draw")
        await page.reload()
        await playwright.expect(status).to_contain_text("Sending again… draw")
        await until(lambda: len(keys) >= 3)
        await page.unroute_all()
        await seen(page, "draw is done.")
        assert len(set(keys)) == 1
        assert await page.locator(".run").count() == 1
        refuses = True
        await page.route(re.compile("/invocations$"), answer)
        await box.fill("fail")
        await box.press("Enter")
        await page.get_by_role("button", name="Try again").wait_for()
        await page.reload()
        await playwright.expect(box).to_have_value("fail")
        await box.press("Enter")
        await page.get_by_role("button", name="Try again").wait_for()
        assert len(set(keys)) == 2
        assert keys[-1] == keys[-2]


async def test_no_view_has_a_serious_barrier(browser, web, tmp_path) -> None:
    """What axe-core calls serious or critical is in no view, be it light or dark."""
    axe = await install_packages("axe", tmp_path) / "node_modules" / "axe-core" / "axe.min.js"
    async with tab(browser, web, reduced_motion="reduce") as page:
        await page.add_init_script(path=axe)
        await page.reload()
        await say(page, "fail")
        await seen(page, "The run failed.")
        await barriers(page)
        await say(page, "expert draw")
        await ended(page)
        await page.get_by_role("button", name="Steps of expert").click()
        await page.locator(".steps .more").nth(3).wait_for()
        for more in await page.locator(".more").all():
            await more.click()
        await barriers(page)
        await page.get_by_role("tab", name="State").click()
        await barriers(page)
        await page.get_by_role("tab", name="Artifacts").click()
        await page.locator(".panel img").wait_for()
        await barriers(page)
        await say(page, "pay")
        await page.get_by_label("Approve pay").wait_for()
        await barriers(page)
        await page.get_by_role("link", name="Inbox").click()
        await page.get_by_label("Approve pay").first.wait_for()
        await barriers(page)
        await page.get_by_role("link", name="durable_adk").click()
        await page.get_by_text("Nothing selected.").wait_for()
        await page.get_by_role("button", name="Sessions").click()
        await page.get_by_role("button", name="Delete").first.click()
        await barriers(page)


async def barriers(page) -> None:
    """Fail if axe-core finds something serious in what is shown."""
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        found = await page.evaluate("async () => (await axe.run()).violations")
        serious = [one for one in found if one["impact"] in {"serious", "critical"}]
        assert [(one["id"], node["html"]) for one in serious for node in one["nodes"]] == []


async def test_a_page_loaded_again_in_mid_answer_goes_on(browser, web) -> None:
    """Each word is there once before and after, and so is the committed event."""
    async with tab(browser, web) as page:
        let_say(web, 4)
        await say(page, "talk")
        await page.get_by_text("word3").wait_for()
        await page.reload()
        await page.get_by_text("word3").wait_for()
        let_say(web, 10)
        await page.get_by_text("word9").wait_for()
        assert await words(page) == WORDS[:10]
        let_say(web)
        await ended(page)
        assert await words(page) == WORDS
        assert await numbers(page) == [1, 2]


@pytest.mark.parametrize("who", ["server", "worker"])
async def test_a_process_killed_in_mid_answer_shows_each_event_once(browser, web, who) -> None:
    """SIGKILL: the page continues by itself, without a gap and without anything twice."""
    async with tab(browser, web) as page:
        let_say(web, 4)
        await say(page, "talk")
        await page.get_by_text("word3").wait_for()
        if who == "server":
            web.kill()
            web.start()
        else:
            web.kill_worker()
        let_say(web)
        await ended(page)
        assert await words(page) == WORDS
        assert await numbers(page) == [1, 2]


async def test_the_page_serves_a_phone_and_the_dark(browser, web) -> None:
    """At 390 pixels nothing is wider than the screen, and the background is dark if wanted."""
    async with tab(browser, web, color_scheme="dark") as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        await say(page, "pay")
        await page.get_by_label("Approve pay").wait_for()
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        where = await page.locator(".session-head .where").bounding_box()
        assert where["height"] < 30  # one line, however long the session's id is
        await page.get_by_role("link", name="Back to the runs").click()
        for role in ({"role": "main"}, {"role": "heading", "level": 1}):
            await playwright.expect(page.get_by_role(**role)).to_have_count(1)
        await page.go_back()
        await page.set_viewport_size({"width": 1000, "height": 700})
        await playwright.expect(page.get_by_role("main")).to_have_count(1)
        await page.locator(".run-list .badge").first.wait_for()
        over = "all => all.some((one) => one.getBoundingClientRect().right > 320)"
        assert await page.locator(".chips .chip").evaluate_all(over) is False
        await page.set_viewport_size({"width": 1000, "height": 260})
        assert await page.evaluate("document.documentElement.scrollHeight") == 260
        colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, re.findall(r"\d+", colour)[:3])) < 150


async def test_a_page_below_a_prefix_works(browser, client, tmp_path) -> None:
    """Files, links, streams and artifacts of a mounted server are below its prefix.

    An app without a session can be chosen there, because a worker serves it.
    """
    async with placed(client, tmp_path, root_agent) as place, mounted(place, tmp_path) as (http, _):
        there = SimpleNamespace(url=str(http.base_url).rstrip("/"))
        async with tab(browser, there, "") as page:
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            await page.locator(".live.live").wait_for()
            await say(page, "draw")
            await seen(page, "draw is done.")
            await ended(page)
            await page.reload()
            await page.get_by_role("button", name="picture.png version 0").click()
            picture = page.locator(".panel img").first
            await playwright.expect(picture).to_have_js_property("naturalWidth", 1)
            await page.get_by_role("link", name="durable_adk").click()
            await page.get_by_role("navigation", name="Runs").get_by_role("link").first.click()
            await seen(page, "draw is done.")
            assert [url for url in asked if not url.startswith((f"{there.url}/", "blob:"))] == []


async def test_a_field_is_called_what_it_shows(browser, web) -> None:
    """A screen reader reads the label of each field, also of one that takes JSON."""
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { formOf } = await import(new URL("page/form.js", location.href));
                const { fieldOf } = await import(new URL("page/schema.js", location.href));
                const schema = { properties: { size: { type: "string" }, more: {} } };
                document.body.append(formOf(fieldOf(schema)).element, formOf(fieldOf({})).element);
            }"""
        )
        for name in ("size", "more", "JSON"):
            assert await page.get_by_role("textbox", name=name, exact=True).count() == 1


async def test_the_field_of_a_message_grows_with_its_text(browser, web) -> None:
    """Also with lines that are wrapped; no further than ten lines."""
    async with tab(browser, web, "/#/new") as page:
        box = page.get_by_role("textbox", name="Message")
        heights = []
        for text in ("", "a line", "wrapped " * 40, "wrapped " * 2000):
            await box.fill(text)
            heights.append((await box.bounding_box())["height"])
        one, same, some, most = heights
        assert one == same
        assert 2 * one < some < most < 11 * one


async def test_what_is_written_while_a_message_is_sent_is_kept(browser, web) -> None:
    """It is the next message. One that was refused is put in front of it, to be sent again.

    One that was to steer, and may have arrived, is sent by hand only, under its key.
    """
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { Composer } = await import(new URL("page/composer.js", location.href));
                window.sent = [];
                const send = ({ parts }, { key }) => new Promise((accept, refuse) => {
                    window.sent.push([parts[0].text, key]);
                    window.end = (why) => (why ? refuse(new Error(why)) : accept());
                });
                const { underWayOf } = await import(new URL("page/preferences.js", location.href));
                window.show = () =>
                    document.body.replaceChildren(new Composer(send, ["here"]).element);
                window.leave = (text, key) => {
                    underWayOf("here").set({ parts: [{ text }], key, steer: true, to: null });
                    window.show();
                };
                window.show();
            }"""
        )
        box = page.get_by_role("textbox", name="Message")
        for why, left in (("", "next"), ("No.", "first\nnext"), ("No.", "first")):
            await box.fill("first")
            await box.press("Enter")
            await page.keyboard.type("next" if "next" in left else "")
            await page.evaluate("why => window.end(why)", why)
            await page.locator(".busy").wait_for(state="detached")
            assert await box.input_value() == left
        await page.get_by_role("button", name="Try again").click()
        first, *_, before, again = await page.evaluate("window.sent")
        assert (before, first[0]) == (again, "first")
        await page.evaluate("window.leave('faster', 'k')")
        await playwright.expect(box).to_have_value("faster")
        await page.evaluate("window.show()")
        await playwright.expect(box).to_have_value("faster")
        assert (await page.evaluate("window.sent"))[-1] == again
        await box.press("Enter")
        assert (await page.evaluate("window.sent"))[-1] == ["faster", "k"]


async def test_many_runs_of_a_session_are_not_asked_about_one_by_one(browser, web) -> None:
    """What waits is listed once for all of them; a run is asked about when it is in sight."""
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { SessionView } = await import(new URL("page/session.js", location.href));
                const item = (seq) => {
                    const run = { invocationId: `i${seq}` };
                    const content = { parts: [{ text: `message ${seq}` }] };
                    const event = { id: `e${seq}`, author: "user", content, ...run };
                    const status = { type: "status", status: "completed", ...run };
                    return [{ type: "event", seq, event }, status];
                };
                const items = Array.from({ length: 200 }, (_, at) => item(at + 1)).flat();
                const text = items.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
                const start = (stream) => stream.enqueue(new TextEncoder().encode(text));
                const stream = () => new Response(new ReadableStream({ start }));
                const about = { status: "completed", startTime: 1, updateTime: 3 };
                const others = window.fetch;
                window.asked = [];
                window.fetch = async (url, options) => {
                    const { pathname, search } = url;
                    if (!`${pathname}${search}/`.includes("many")) return others(url, options);
                    window.asked.push(pathname);
                    if (pathname.endsWith("/events")) return stream();
                    const invocationId = pathname.split("/").at(-1);
                    if (pathname.endsWith("/queue")) return Response.json([]);
                    return Response.json({ ...about, invocationId, pending: [] });
                };
                const key = { appName: "a", userId: "u", sessionId: "many" };
                const main = document.getElementById("main");
                main.replaceChildren(new SessionView(key).element);
            }"""
        )
        await page.locator("[data-run=i200] .facts").get_by_text("2.0 s").first.wait_for()
        await page.locator(".scroller").evaluate("one => (one.scrollTop = 0)")
        await page.locator("[data-run=i1] .facts").get_by_text("2.0 s").first.wait_for()
        latest = await page.get_by_role("button", name="Latest").bounding_box()
        details = await page.locator(".more").first.bounding_box()
        assert latest["x"] + latest["width"] < details["x"]  # it lies over none of them
        asked = await page.evaluate("window.asked")
        session = "/apps/a/users/u/sessions/many"
        assert [asked.count(path) for path in ("/pending", f"{session}/queue", session)] == [1] * 3
        assert len(asked) < 60  # of 200 runs


async def test_many_tabs_of_a_browser_have_room(browser, web) -> None:
    """They share what tells of changes, also once the tab that reads it is closed."""
    names = [f"tab{number}" for number in range(5)]
    place = "apps/desk/users/user/sessions"
    async with tab(browser, web) as page:
        for name in names:
            await page.request.post(f"{web.url}/{place}", data={"sessionId": name})
        pages = [page] + [await page.context.new_page() for _ in names[1:]]
        for each, name in zip(pages, names, strict=True):
            await each.goto(f"{web.url}/#/s/desk/user/{name}")
            await each.get_by_text("A new session.").wait_for()
            await each.locator(".live.live").wait_for()
        await pages.pop().close()  # it was shown last
        message = {"role": "user", "parts": [{"text": "draw"}]}
        run = {"appName": "desk", "userId": "user", "sessionId": names[-1], "newMessage": message}
        await page.request.post(f"{web.url}/invocations", data=run)
        for each in pages:
            await each.locator(f".runs [href*={names[-1]}].completed").wait_for()


async def test_a_page_over_plain_http_follows_changes_by_itself(browser, web) -> None:
    """Browsers have no locks there, which the tabs of a user would share a connection by."""
    async with tab(browser, web) as page:
        for there in ("navigator, 'locks'", "crypto, 'subtle'"):
            await page.add_init_script(f"Object.defineProperty({there}, {{ value: undefined }})")
        await page.reload()
        await page.locator(".live.live").wait_for()
        await say(page, "draw")
        await ended(page)
        await page.locator(".runs [aria-current].completed").wait_for()


CHANGES = """
window.opened = [];
const others = window.fetch;
window.fetch = async (url, options) => {
    if (!`${url}`.endsWith("/changes")) return others(url, options);
    const start = (stream) => {
        window.opened.push(stream);
        options.signal.addEventListener("abort", () => stream.error(options.signal.reason));
    };
    return new Response(new ReadableStream({ start }));
};
window.say = (text) => window.opened.at(-1).enqueue(new TextEncoder().encode(`${text}\n\n`));
window.follow = async () => {
    const { followChanges } = await import(new URL("page/changes.js", location.href));
    followChanges(() => (window.changes += 1), () => {});
};
window.changes = 0;
window.sleep = async () => {
    const [{ name }] = (await navigator.locks.query()).held;
    navigator.locks.request(name, { steal: true }, () => new Promise(() => {})).catch(() => {});
    return name;
};
"""
"""`say` writes to the newest stream of changes; `follow` and `sleep` do what other tabs would."""


async def test_a_tab_that_reads_and_falls_silent_is_replaced(browser, web) -> None:
    """One that sleeps may be the next to read, and cannot. One that passes on pings is kept."""
    async with tab(browser, web) as page:
        await stop_clock(page)
        await page.add_init_script(CHANGES)
        await page.reload()
        await holds(page, "window.opened.length === 1")
        await page.evaluate("window.follow()")
        await holds(page, "window.opened.length === 2")
        for _ in range(4):
            await page.clock.run_for(20_000)
            await page.evaluate("window.say(': ping')")
        assert await page.evaluate("[window.opened.length, window.changes]") == [2, 0]
        await page.evaluate("window.sleep()")
        await page.clock.run_for(50_000)
        assert await page.evaluate("window.opened.length") == 2
        await page.clock.run_for(10_000)
        await holds(page, "window.opened.length > 2")
        await page.evaluate("window.say('data: {}')")
        await holds(page, "window.changes > 0")
        opened = await page.evaluate("window.opened.length")
        name = await page.evaluate("window.sleep()")
        refused = "name => new BroadcastChannel(name).postMessage({ state: 'refused' })"
        await page.evaluate(refused, name)
        await page.locator(".live.refused").wait_for()
        await page.clock.run_for(60_000)
        await page.evaluate("navigator.locks.query()")
        assert await page.evaluate("window.opened.length") == opened  # it would be refused again


async def test_a_page_that_gets_no_lock_reads_by_itself_once(browser, web) -> None:
    """However often it is shown."""
    async with tab(browser, web) as page:
        await page.add_init_script(
            f"""{CHANGES}
            const refuse = async () => {{ throw new DOMException("no", "SecurityError"); }};
            navigator.locks.request = refuse;"""
        )
        await page.reload()
        await page.locator(".live.live").wait_for()
        for _ in range(3):
            await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await page.evaluate("fetch('.')")
        assert await page.evaluate("window.opened.length") == 1


STREAMS = """async () => {
    const { Stream } = await import(new URL("page/stream.js", location.href));
    window.opened = [];
    window.states = [];
    window.items = [];
    const others = window.fetch;
    window.fetch = async (url, options) => {
        if (!`${url}`.includes("/given")) return others(url, options);
        const { signal, headers } = options;
        const sent = window.given[window.opened.length] ?? "";
        window.opened.push({ signal, at: Date.now(), after: headers["last-event-id"] });
        const start = (stream) => {
            stream.enqueue(new TextEncoder().encode(`retry: ${window.retry}\\n\\n${sent}`));
            if (sent.includes("event: error")) stream.close();
            signal.addEventListener("abort", () => stream.error(signal.reason));
        };
        return new Response(new ReadableStream({ start }));
    };
    window.retry = 20;
    window.hide = (hidden) => {
        Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    };
    window.follow = () => {
        const onItem = (item) => window.items.push(item);
        const onState = (state) => window.states.push(state);
        window.stream = new Stream(["given"], { onItem, onState });
        window.stream.run();
    };
}"""
"""Has streams of what `given` says, one a connection."""


async def test_a_hidden_page_gives_back_its_stream(browser, web) -> None:
    """It continues after what it has shown once the page is shown again, and not before."""
    async with tab(browser, web) as page:
        await stop_clock(page)
        await page.evaluate(STREAMS)
        await page.evaluate("window.given = ['id: 7\\ndata: 1\\n\\n', 'id: 8\\ndata: 2\\n\\n']")
        await page.evaluate("window.follow()")
        await holds(page, "window.items.length === 1")
        await page.evaluate("window.hide(true)")
        await page.clock.run_for(4_000)
        assert await page.evaluate("window.opened[0].signal.aborted") is False
        await page.clock.run_for(60_000)
        assert await page.evaluate("window.opened.map(({ signal }) => signal.aborted)") == [True]
        await page.evaluate("window.hide(false)")
        await holds(page, "window.items.length === 2")
        assert await page.evaluate("window.opened[1].after") == "7"
        assert await page.evaluate("window.opened.length") == 2
        await page.evaluate("window.stream.stop()")


async def test_a_stream_that_only_fails_says_why_and_waits_longer(browser, web) -> None:
    """It waits as the server wants, and then longer and longer, until something comes."""
    error = """event: error\\ndata: {"error": {"message": "It is gone."}}\\n\\n"""
    stream = {"content_type": "text/event-stream", "body": error.replace("\\n", "\n")}
    async with tab(browser, web) as page:
        await page.route("**/sessions/broken/events", lambda route: route.fulfill(**stream))
        await page.goto(f"{web.url}/#/s/desk/user/broken")
        await page.locator(".connection").get_by_text("It is gone.").wait_for()
        await page.goto(f"{web.url}/#/")
        await stop_clock(page)
        await page.evaluate(STREAMS)
        await page.evaluate(f"window.given = Array(20).fill('{error}')")
        await page.evaluate("window.given.push(': ping\\n\\n'); window.retry = 1000")
        await page.evaluate("window.follow()")

        async def has_tried() -> bool:
            await page.clock.run_for(500)
            tries = "window.opened.length > 5 && Date.now() - window.opened[0].at > 20_000"
            return await page.evaluate(tries)

        await until(has_tried)
        said = await page.evaluate("window.states")
        assert {one["why"] for one in said if one["state"] == "waiting"} == {"It is gone."}
        assert [one["state"] for one in said].count("live") == 1  # of the first answer
        times = await page.evaluate("window.opened.map(({ at }) => at)")
        waits = [later - one for one, later in itertools.pairwise(times)]
        assert len([one for one in times if one - times[0] <= 20_000]) < 12
        assert waits[0] >= 1000
        assert waits[4] > 2000

        async def is_live() -> bool:
            await page.clock.run_for(30_000)
            return await page.evaluate("window.states.at(-1).state === 'live'")

        await until(is_live)
        await page.evaluate("window.stream.stop()")


async def test_a_request_without_an_answer_is_given_up(browser, web) -> None:
    """Reading fails after half a minute, so that nothing hangs without a word."""
    async with tab(browser, web) as page:
        await stop_clock(page)
        await page.evaluate(
            """async () => {
                const { get } = await import(new URL("page/api.js", location.href));
                const others = window.fetch;
                window.fetch = (url, options) => `${url}`.includes("/never")
                    ? new Promise((_, fail) => options.signal.addEventListener("abort", fail))
                    : others(url, options);
                get(["never"]).catch((error) => (window.failed = error.message));
            }"""
        )
        await page.clock.run_for(29_000)
        assert await page.evaluate("window.failed") is None
        await page.clock.run_for(1_000)
        assert await page.evaluate("window.failed") == "The server does not answer."


async def test_a_long_session_is_not_drawn_again_for_each_chunk(browser, web) -> None:
    """Of 2,000 events none has its time said again, and they are not sorted again."""
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { SessionView } = await import(new URL("page/session.js", location.href));
                const others = window.fetch;
                const item = (seq) => {
                    const run = { invocationId: `i${Math.ceil(seq / 500)}` };
                    const content = { parts: [{ text: `message ${seq}` }] };
                    const event = { id: `e${seq}`, author: "agent", content, timestamp: 1, ...run };
                    return { type: "event", seq, event };
                };
                const chunk = (position) => {
                    const content = { parts: [{ text: `word${position} ` }] };
                    const ids = { invocationId: "i4", eventId: "next", attempt: 1 };
                    return { type: "partial", position, event: { author: "a", content }, ...ids };
                };
                let send;
                const say = (items) => {
                    const text = items.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
                    send(new TextEncoder().encode(text));
                };
                window.fetch = async (url, options) => {
                    if (!`${url}/`.includes("long")) return others(url, options);
                    if (url.pathname.endsWith("/events")) {
                        const start = (stream) => (send = (each) => stream.enqueue(each));
                        return new Response(new ReadableStream({ start }));
                    }
                    if (url.pathname.endsWith("/queue")) return Response.json([]);
                    return Response.json({ pending: [], events: [1] });
                };
                window.formatters = 0;
                window.times = 0;
                window.sorted = 0;
                for (const name of ["toLocaleTimeString", "toLocaleDateString"]) {
                    const before = Date.prototype[name];
                    Date.prototype[name] = function (...options) {
                        window.formatters += 1;
                        return before.apply(this, options);
                    };
                }
                const sort = Array.prototype.sort;
                Array.prototype.sort = function (...order) {
                    window.sorted = Math.max(window.sorted, this.length);
                    return sort.apply(this, order);
                };
                window.Date = class extends Date {
                    constructor(...at) {
                        super(...at);
                        window.times += 1;
                    }
                };
                const key = { appName: "a", userId: "u", sessionId: "long" };
                const view = new SessionView(key);
                document.getElementById("main").replaceChildren(view.element);
                await new Promise(requestAnimationFrame);
                say(Array.from({ length: 2000 }, (_, at) => item(at + 1)));
                window.write = async (from, to) => {
                    for (let position = from; position < to; position += 1) {
                        say([chunk(position)]);
                        await new Promise(requestAnimationFrame);
                    }
                };
            }"""
        )
        await page.locator("#main .timeline").get_by_text("message 2000").wait_for()
        assert await page.locator("#main .entry").count() == 2000
        await page.evaluate("window.write(0, 3)")
        await page.locator("#main .partial").get_by_text("word2").wait_for()
        before = await page.evaluate("window.times")
        await page.evaluate("window.write(3, 20)")
        await page.locator("#main .partial").get_by_text("word19").wait_for()
        assert await page.evaluate("window.formatters") == 0
        assert await page.evaluate("window.times") - before < 500
        assert await page.evaluate("window.sorted") < 1000
        await page.locator("#main .more").last.click()
        await page.locator("#main .details").get_by_text("As JSON").wait_for()


async def test_rows_are_changed_in_place(browser, web) -> None:
    """A list that is read again keeps its rows and buttons, so a click and the focus are not lost.

    Cards that come later go where they belong. Ages grow by themselves.
    """
    async with tab(browser, web) as page:
        await stop_clock(page)
        await page.reload()
        await page.evaluate(
            """async () => {
                const load = (name) => import(new URL(`page/${name}.js`, location.href));
                const [{ Runs }, { Sessions }] = [await load("runs"), await load("sessions")];
                const { Inbox } = await load("inbox");
                const others = window.fetch;
                const about = (at) => ({ appName: "kept", userId: "u", sessionId: `s${at}` });
                const ids = (at) => ({ invocationId: `i${at}`, callId: "c", kind: "input" });
                const now = Date.now() / 1000;
                const times = { updateTime: now, startTime: now, lastUpdateTime: now };
                const said = (at) => ({ status: "completed", message: `run ${at}`, ...times });
                const row = (at) => ({ ...about(at), ...ids(at), ...said(at), id: `s${at}` });
                const card = (at) =>
                    ({ ...about(at), ...ids(at), name: "pay", requestedAt: now + at });
                window.rows = [3, 2, 1].map(row);
                window.cards = [2, 4].map(card);
                window.fetch = async (url, options) => {
                    const { pathname, search } = url;
                    if (!`${pathname}${search}`.includes("kept")) return others(url, options);
                    if (pathname.endsWith("/counts")) return Response.json({ completed: 3 });
                    if (pathname.endsWith("/pending")) {
                        return Response.json({ pending: window.cards });
                    }
                    if (pathname.endsWith("/sessions")) return Response.json(window.rows);
                    return Response.json({ invocations: window.rows, nextPageToken: "next" });
                };
                const sessions = new Sessions(() => {});
                sessions.element.hidden = false;
                const lists = [new Runs(), sessions, new Inbox(() => {}, () => {})];
                window.elements = lists.map((each) => each.element);
                document.getElementById("main").replaceChildren(...window.elements);
                await lists[0].narrow({ app: "kept" });
                await sessions.narrow({ apps: ["kept"], user: "u" });
                await lists[2].narrow({ app: "kept" });
                window.all = () => window.elements.map((each) =>
                    [...each.querySelectorAll("a[href], article, .foot button, .chip")]);
                window.before = window.all();
                window.touched = [];
                const seen = new MutationObserver((changes) => window.touched.push(...changes));
                for (const each of window.elements) {
                    for (const list of each.querySelectorAll(".run-list, .cards, .chips")) {
                        seen.observe(list, { childList: true, subtree: true, attributes: true });
                    }
                }
                window.again = async () => {
                    for (const each of lists) await each.refresh();
                };
                window.change = async () => {
                    const later = now + 1;
                    window.rows[2] = { ...window.rows[2], status: "failed", lastUpdateTime: later };
                    window.rows = [window.rows[2], row(4), ...window.rows.slice(0, 2)];
                    window.cards = [1, 2, 3, 4, 5].map(card);
                    await window.again();
                };
            }"""
        )
        await page.locator("#main [aria-label=Runs] [data-run=i1]").focus()
        await page.evaluate("window.again()")
        touched = "window.touched.map(({ type, target }) => [type, target.outerHTML])"
        assert await page.evaluate(touched) == []
        await page.locator("#main [aria-label=Runs] [data-run=i2]").focus()
        await page.evaluate("window.change()")
        kept = "window.before.flat().every((each) => window.all().flat().includes(each))"
        assert await page.evaluate(kept)
        focused = page.locator("#main [aria-label=Runs] [data-run=i2]")
        await playwright.expect(focused).to_be_focused()
        links = "[...window.elements[{}].querySelectorAll('.run-list a .said')]"
        for at in (0, 1):
            texts = await page.evaluate(links.format(at) + ".map((each) => each.textContent)")
            assert sorted(texts) == ["run 1", "run 2", "run 3", "run 4"]
            assert texts[0] == "run 1"
        places = await page.locator("#main .inbox .where").all_inner_texts()
        assert [place[-2:] for place in places] == ["s1", "s2", "s3", "s4", "s5"]
        ages = page.locator("#main time")
        assert {*await ages.all_inner_texts()} == {"now"}
        await page.clock.run_for(150_000)
        assert "now" not in await ages.all_inner_texts()


async def test_the_theme_is_turned_and_nothing_else(browser, web) -> None:
    """The lists stay as they are, and the button keeps the focus."""
    async with tab(browser, web) as page:
        await page.get_by_role("searchbox", name="Search runs").fill("fish")
        theme = page.get_by_role("button", name="Switch between dark and light")
        before = await theme.locator("path").get_attribute("d")
        await page.evaluate("window.parts = [...document.querySelectorAll('#side > *')]")
        await theme.press("Enter")
        assert await theme.locator("path").get_attribute("d") != before
        await playwright.expect(theme).to_be_focused()
        same = "[...document.querySelectorAll('#side > *')].every((one, at) => one === parts[at])"
        assert await page.evaluate(same)


async def test_the_seconds_of_a_wait_are_not_read_out(browser, web) -> None:
    """A screen reader reads once that the page connects again."""
    async with tab(browser, web, ours=False) as page:
        await page.route("**/sessions/away/events", lambda route: route.fulfill(status=503))
        await page.goto(f"{web.url}/#/s/desk/user/away")
        wait = page.get_by_text("Retrying in")
        await wait.wait_for()
        assert await page.locator(":is([role=status], [aria-live])", has=wait).count() == 0
        heard = page.locator("#announcements", has_text="Reconnecting")
        await playwright.expect(heard).to_have_count(1)


async def test_a_late_answer_does_not_open_a_run_again(browser, web) -> None:
    """What the stream has brought since the request is newer than its answer."""
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { SessionView } = await import(new URL("page/session.js", location.href));
                const others = window.fetch;
                const run = { invocationId: "i" };
                const content = { parts: [{ text: "hello" }] };
                const event = { id: "e", author: "user", content, ...run };
                let send;
                window.asked = [];
                window.say = (item) => send(new TextEncoder().encode(`data: ${item}\n\n`));
                window.fetch = async (url, options) => {
                    if (!`${url}/`.includes("late")) return others(url, options);
                    if (url.pathname.endsWith("/events")) {
                        const start = (stream) => (send = (each) => stream.enqueue(each));
                        return new Response(new ReadableStream({ start }));
                    }
                    if (url.pathname.endsWith("/queue")) return Response.json([]);
                    if (!url.pathname.endsWith("/i")) return Response.json({ pending: [] });
                    const status = window.status;
                    await new Promise((resolve) => window.asked.push(resolve));
                    return Response.json({ ...run, status, startTime: 1, updateTime: 3 });
                };
                window.tell = (status) => {
                    window.status = status;
                    window.say(JSON.stringify({ type: "status", status, ...run }));
                };
                const key = { appName: "a", userId: "u", sessionId: "late" };
                document.getElementById("main").replaceChildren(new SessionView(key).element);
                await new Promise(requestAnimationFrame);
                window.say(JSON.stringify({ type: "event", seq: 1, event }));
                window.tell("running");
            }"""
        )
        await holds(page, "window.asked.length === 1")
        await page.evaluate("window.tell('completed')")
        await page.locator("#main .status.completed").wait_for()
        # Behind the timer of another request, which the page may have set.
        await page.evaluate("new Promise((due) => setTimeout(due, 500))")
        await page.evaluate("window.asked.reverse().forEach((answer) => answer())")
        await holds(page, "window.asked.length === 2")
        assert await page.locator("#main .status.completed").count() == 1
        await page.evaluate("window.asked.forEach((answer) => answer())")
        await page.locator("#main .facts").get_by_text("2.0 s").first.wait_for()
        assert await page.locator("#main .status.completed").count() == 1


async def test_a_long_inbox_is_read_in_pages(browser, web) -> None:
    """More is shown when it is asked for; what came meanwhile is read behind a slow answer."""
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { Inbox } = await import(new URL("page/inbox.js", location.href));
                const about = { appName: "many", userId: "u", sessionId: "s", name: "pay" };
                const ids = (at) => ({ invocationId: `i${at}`, callId: `c${at}` });
                const call = (at) => ({ ...about, ...ids(at), requestedAt: at });
                const others = window.fetch;
                window.late = Promise.resolve();
                window.calls = Array.from({ length: 60 }, (_, at) => call(at));
                window.fetch = async (url, options) => {
                    const asked = url.searchParams;
                    if (asked?.get("app_name") !== "many") return others(url, options);
                    const from = Number(asked.get("page_token") ?? 0);
                    const to = from + Number(asked.get("limit"));
                    const pending = window.calls.slice(from, to);
                    const more = to < window.calls.length;
                    await window.late;
                    return Response.json({ pending, ...(more && { nextPageToken: String(to) }) });
                };
                window.inbox = new Inbox((text) => (window.told = text), () => {});
                document.getElementById("main").replaceChildren(window.inbox.element);
                await window.inbox.narrow({ app: "many" });
            }"""
        )
        cards = page.locator("#main .answer")
        lead = page.locator("#main .lead")
        assert await page.evaluate("window.told") == "50+"
        assert await cards.count() == 50
        assert (
            await lead.text_content()
            == "Showing the first 50 calls waiting for a person, oldest first."
        )
        await page.get_by_role("button", name="Show more").click()
        await page.get_by_text("60 calls are waiting for a person, oldest first.").wait_for()
        assert await page.evaluate("window.told") == "60"
        assert await cards.last.get_attribute("data-call") == "c59"
        await page.evaluate(
            """async () => {
                let end;
                window.late = new Promise((resolve) => (end = resolve));
                const slow = window.inbox.refresh();
                window.late = Promise.resolve();
                window.calls = window.calls.slice(0, 2);
                window.inbox.refresh();
                end();
                await slow;
            }"""
        )
        assert await cards.count() == 2
        assert await lead.text_content() == "2 calls are waiting for a person, oldest first."


async def test_lists_of_a_busy_server_are_shown_as_they_come(browser, web) -> None:
    """However often something changes and however slow an answer is, it is shown.

    One request is under way at a time; the answer to another question is not shown.
    """
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const load = (name) => import(new URL(`page/${name}.js`, location.href));
                const [{ Runs }, { Sessions }] = [await load("runs"), await load("sessions")];
                const [{ Inbox }, { SessionView }] = [await load("inbox"), await load("session")];
                const others = window.fetch;
                const flying = {};
                window.most = {};
                window.fetch = async (url, options) => {
                    const at = `${url.pathname}${url.search}`;
                    if (!at.includes("busy")) return others(url, options);
                    if (at.endsWith("/events")) return new Response(new ReadableStream({}));
                    flying[at] = (flying[at] ?? 0) + 1;
                    window.most[at] = Math.max(window.most[at] ?? 0, flying[at]);
                    await new Promise((resolve) => setTimeout(resolve, 200));
                    flying[at] -= 1;
                    options.signal?.throwIfAborted();
                    const app = at.includes("busy2") ? "busy2" : "busy";
                    const about = { appName: app, userId: "u", sessionId: "s", name: "pay" };
                    const ids = { invocationId: "i", callId: "c", kind: "input", requestedAt: 1 };
                    const said = { status: "paused", message: `of ${app}`, updateTime: 1 };
                    if (url.pathname.endsWith("/counts")) return Response.json({});
                    if (url.pathname.endsWith("/invocations")) {
                        return Response.json({ invocations: [{ ...about, ...ids, ...said }] });
                    }
                    if (url.pathname.endsWith("/pending")) {
                        return Response.json({ pending: [{ ...about, ...ids }] });
                    }
                    if (url.pathname.endsWith("/queue")) return Response.json([]);
                    return Response.json([{ ...about, id: "s" }]);
                };
                window.runs = new Runs();
                const sessions = new Sessions(() => {});
                sessions.element.hidden = false;
                const inbox = new Inbox(() => {}, () => {});
                const view = new SessionView({ appName: "busy", userId: "u", sessionId: "s" });
                window.lists = { runs: window.runs, sessions, inbox };
                const shown = Object.values(window.lists).map((each) => each.element);
                document.getElementById("main").replaceChildren(...shown, view.element);
                window.runs.narrow({ app: "busy" });
                sessions.narrow({ apps: ["busy"], user: "u" });
                inbox.narrow({ app: "busy" });
                const count = () => shown.map((each) => each.querySelectorAll("time").length);
                const waits = (round) => round < 16 || (count().includes(0) && round < 400);
                for (let round = 0; waits(round); round += 1) {
                    for (const each of [...Object.values(window.lists), view]) each.refresh();
                    await new Promise((resolve) => setTimeout(resolve, 50));
                }
                window.counted = count();
                window.runs.narrow({ app: "busy2" });
                inbox.narrow({ app: "busy2" });
                sessions.narrow({ apps: ["busy2"], user: "u" });
                view.stop();
            }"""
        )
        assert await page.evaluate("window.counted") == [1, 1, 1]
        most = await page.evaluate("window.most")
        assert set(most.values()) == {1}
        assert any("/pending?" in at and "session_id" in at for at in most)
        for name in ("Runs", "Sessions"):
            await page.locator(f"#main [aria-label={name}] .whose", has_text="busy2").wait_for()
        await page.locator("#main .inbox", has_text="busy2").wait_for()


async def test_a_list_in_a_list_is_filled_in(browser, web) -> None:
    """Items are added and removed at each level; what is read is what the fields show.

    A form that is made again has what was put in before, also half of a JSON; but not a secret.
    """
    async with tab(browser, web) as page:
        await page.evaluate(
            """async () => {
                const { formOf } = await import(new URL("page/form.js", location.href));
                const { fieldOf } = await import(new URL("page/schema.js", location.href));
                const kids = { type: "array", items: { type: "string", minLength: 1 } };
                const guest = { properties: { name: { type: "string" }, kids, more: {} } };
                const draft = { get: () => window.kept, set: (value) => (window.kept = value) };
                window.make = (items) => {
                    window.form = formOf(fieldOf({ type: "array", items }), undefined, draft);
                    document.body.replaceChildren(window.form.element);
                };
                window.make(guest);
                window.again = () => window.make(guest);
            }"""
        )
        add = page.get_by_role("button", name="Add")
        for guest, kids in enumerate((["Cy"], ["Di", "Ed", "Flo"])):
            await add.last.click()
            await page.get_by_role("textbox", name="name").nth(guest).fill(f"guest {guest}")
            for kid, name in enumerate(kids):
                await add.nth(guest).click()
                await page.locator(f"[data-path='{guest}.kids.{kid}'] input").fill(name)
        await page.get_by_role("button", name="Remove kids 2").click()
        await page.get_by_role("button", name="Remove item 1").click()
        read = {"value": [{"name": "guest 1", "kids": ["Di", "Flo"], "more": {}}]}
        assert await page.evaluate("window.form.read()") == read
        await page.get_by_role("textbox", name="more").fill('{"size": 3')
        await page.evaluate("window.again()")
        assert await page.get_by_role("textbox", name="more").input_value() == '{"size": 3'
        await page.get_by_role("textbox", name="more").fill("{}")
        assert await page.evaluate("window.form.read()") == read
        await page.locator("[data-path='0.kids.1'] input").fill("")
        assert await page.evaluate("window.form.read()") is None
        wrong = page.locator("[data-path='0.kids.1'] [aria-invalid]")
        await playwright.expect(wrong).to_be_focused()
        await page.evaluate("window.make({ type: 'string', format: 'password' })")
        await add.click()
        await page.locator("[type=password]").fill("secret")
        assert await page.evaluate("window.kept") is None


async def test_an_integer_is_as_exact_as_the_servers(browser, web) -> None:
    """Also above 2**53: where it is shown, and in an answer that has it, edited or not."""
    order, other, most = 1234567890123456789, 9007199254740993, 2**63 - 1
    about = {
        "appName": "a",
        "userId": "u",
        "sessionId": "s",
        "kind": "confirmation",
        "requestedAt": 1,
    }
    payload = {"order": order, "left": 1.5, "notes": [], "odd": None}
    about |= {"name": "pay", "arguments": {"order_id": order}, "payload": payload, "editable": True}
    calls = [about | {"invocationId": f"e{number}", "callId": "c"} for number in range(2)]
    sent: list[str] = []

    async def listed(route) -> None:
        await route.fulfill(json={"pending": calls[len(sent) :]})

    async def answer(route) -> None:
        sent.append(json.loads(route.request.post_data)["payload"])
        await route.fulfill(json={})

    async with tab(browser, web) as page:
        await page.route(re.compile("/pending"), listed)
        await page.route(re.compile("/answers"), answer)
        await page.get_by_role("link", name="Inbox").click()
        card = page.locator("#main .answer")
        await playwright.expect(card).to_have_count(2)
        shown = card.first.locator(".arguments").first
        await playwright.expect(shown).to_contain_text(str(order))
        await card.first.get_by_role("button", name="Approve").click()
        await playwright.expect(card).to_have_count(1)
        await card.get_by_label("left").fill("2.5")
        await page.reload()
        await playwright.expect(card.get_by_label("order")).to_have_value(str(order))
        await card.get_by_role("button", name="Approve").click()
        await page.get_by_text("Nothing is waiting for you.").wait_for()
        assert sent == [payload, payload | {"left": 2.5}]
        read = await page.evaluate(
            """async ([schema, first, second]) => {
                const { parse } = await import(new URL("page/json.js", location.href));
                const { formOf } = await import(new URL("page/form.js", location.href));
                const { fieldOf } = await import(new URL("page/schema.js", location.href));
                const form = formOf(fieldOf(parse(schema)), parse(first));
                document.body.replaceChildren(form.element);
                const input = form.element.querySelector("input");
                return [first, ...second].map((text) => {
                    input.value = text;
                    input.dispatchEvent(new Event("input", { bubbles: true }));
                    return JSON.stringify(form.read());
                });
            }""",
            [
                json.dumps({"type": "integer", "maximum": most}),
                str(other),
                [str(most), str(most + 1), "7"],
            ],
        )
        values = [one and json.loads(one) for one in read]
        assert values == [{"value": other}, {"value": most}, None, {"value": 7}]
        artifact = await page.evaluate(
            """async (text) => {
                const { mediaOf } = await import(new URL("page/media.js", location.href));
                const bytes = new TextEncoder().encode(text);
                return mediaOf({ mimeType: "application/json", bytes }, "n").firstChild.textContent;
            }""",
            json.dumps([order, most]),
        )
        assert json.loads(artifact) == [order, most]


async def test_a_session_is_shown_once_a_worker_has_created_it(
    browser, client, tmp_path, monkeypatch
) -> None:
    """Until then the page says that it waits; a user that left is not brought back."""
    monkeypatch.setattr(acceptance, "_STARTED", 0.5)
    async with placed(client, tmp_path, root_agent) as place:
        place.queue += "-later"
        http = await place.server()
        await session(http)  # so that the server knows the app
        there = SimpleNamespace(url=str(http.base_url).rstrip("/"))
        async with (
            tab(browser, there, ours=False) as page,
            tab(browser, there, ours=False) as other,
        ):
            await say(page, "draw")
            await page.keyboard.type("next")
            await page.get_by_text("Waiting for a worker to start").wait_for()
            await page.get_by_text("Waiting for a worker: draw").wait_for()
            next_message = page.get_by_role("textbox", name="Message")
            await playwright.expect(next_message).to_have_value("next")
            await playwright.expect(next_message).to_be_focused()
            await say(other, "pay")
            await other.get_by_role("link", name="Inbox").click()
            await other.get_by_text("Nothing is waiting for you.").wait_for()
            app = App(name="app", root_agent=root_agent)
            options = WorkerOptions(task_queue=place.queue)
            given = {"session_service": place.sessions, "options": options, **place.services}
            async with worker(client, apps=[app], **given):
                await seen(page, "draw is done.")
                await ended(page)
                assert await page.locator("#main").get_by_text("Wait").count() == 0
                await other.get_by_label("Approve pay").wait_for()
                assert other.url == f"{there.url}/#/inbox"


async def test_adks_own_page_works_on_this_server(browser, web) -> None:
    """google-adk's page: chat, an artifact, a confirmation, a long call, and all after a reload."""
    async with tab(browser, web, "/dev-ui/?app=desk", ours=False) as page:

        async def ask(text: str) -> None:
            await page.locator("textarea").first.fill(text)
            await page.locator("textarea").first.press("Enter")

        async def done(what: str) -> None:
            await page.get_by_text(f"{what} is done.").first.wait_for()

        await ask("draw")
        await done("draw")
        await ask("pay")
        await page.locator("input[type=checkbox][id^=confirmed]").check()
        await page.get_by_role("button", name="Submit").click()
        await done("pay")
        await ask("ask")
        waiting = page.locator("app-long-running-response")

        async def filled() -> bool:
            await waiting.locator("input").fill("yes")  # the page may draw it anew
            return await waiting.locator("button").is_enabled()

        await until(filled)
        await waiting.locator("button").click()
        await done("ask")
        await _kept(page)
        await page.reload()
        for what in ("draw", "pay", "ask"):
            await done(what)
            assert await page.get_by_text(f"{what} is done.").count() == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("who", ["nobody", "server", "worker"])
async def test_adks_own_page_shows_each_event_once_after_a_cut(browser, web, who) -> None:
    """Loaded again in mid-answer, or a process killed: the run continues, and the page has all."""
    async with tab(browser, web, "/dev-ui/?app=desk", ours=False) as page:
        await page.get_by_role("button", name="More options").click()
        await page.get_by_text("Streaming", exact=True).click()
        await page.keyboard.press("Escape")
        let_say(web, 4)
        await page.locator("textarea").first.fill("talk")
        await page.locator("textarea").first.press("Enter")
        await page.get_by_text("word3").first.wait_for()
        if who == "server":
            web.kill()
            web.start()
        elif who == "worker":
            web.kill_worker()

        async def shown() -> list[str]:
            await page.reload()
            panel = page.locator("app-chat-panel")
            await panel.get_by_text("talk").first.wait_for()
            return re.findall(r"#\d+|talk|word\d+", await panel.inner_text())

        assert await shown() == ["#1", "talk"]
        let_say(web)
        while WORDS[-1] not in (now := await shown()):
            assert now == ["#1", "talk"]
        assert now == ["#1", "talk", "#2", *WORDS]
