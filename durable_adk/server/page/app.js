// The page: what is shown where, by the address's fragment, and the keys.

import { Account } from "./account.js";
import { get, startOnce } from "./api.js";
import { followChanges } from "./changes.js";
import { Composer, summaryOf } from "./composer.js";
import { announce, button, failure, fill, h, icon, neighbour, tellAges } from "./dom.js";
import { Inbox } from "./inbox.js";
import { empty } from "./panels.js";
import { applyTheme, draftOf, isDark, newPlace, place, prices, queuedIn, readPrices, theme } from "./preferences.js";
import { Runs } from "./runs.js";
import { SessionView } from "./session.js";
import { Sessions } from "./sessions.js";

const KEYS = [
  ["j / k", "next, previous"],
  ["Enter", "open"],
  ["/", "search"],
  ["n", "new session"],
  ["c", "write a message"],
  ["i", "inbox"],
  ["a / r", "approve or reject the selected card, or the only one"],
  ["t", "switch between dark and light"],
  ["Esc", "leave the field"],
  ["?", "show these keys"],
];

const main = document.getElementById("main");
const side = document.getElementById("side");
const runs = new Runs();
const sessions = new Sessions((key) => {
  if (shownKey === JSON.stringify([key.appName, key.userId, key.sessionId])) location.hash = "#/";
  changed();
});
const waiting = h("span", { class: "badge", hidden: true });
const inbox = new Inbox((number) => {
  waiting.hidden = !number;
  waiting.textContent = number;
  document.title = number ? `(${number}) durable_adk` : "durable_adk";
}, changed);
const account = new Account(showUsers, dialog);
const live = h("span", { class: "live" });
const small = matchMedia("(max-width: 760px)"); // as in style.css
const sideTitle = h("h1", { class: "sr", hidden: true }, "Runs");
let view = null;
let shownKey = "";
let apps = null; // not known yet
let appsWait = 1000; // milliseconds before the next look for apps, while there are none
let appsDue = null;

// --- the side ---

const appSelect = h("select", { "aria-label": "App", onchange: moved });
const userInput = h("input", { "aria-label": "User", placeholder: "All users", hidden: true, autocomplete: "off", spellcheck: "false", onchange: moved });

const themeIcon = () => (isDark() ? "sun" : "moon");
const themeButton = button("Switch between dark and light", turn, { only: themeIcon(), "aria-keyshortcuts": "t" });

function drawSide() {
  fill(
    side,
    sideTitle,
    h(
      "header",
      { class: "brand" },
      h("a", { href: "#/", class: "wordmark" }, "durable", h("span", null, "_adk")),
      live,
      h("span", { class: "tools" }, button("Prices", openPrices, { only: "coins" }), themeButton, button("Keys", openHelp, { only: "help", "aria-keyshortcuts": "?" })),
    ),
    h(
      "div",
      { class: "primary-nav" },
      h("a", { href: "#/new", class: "button primary", "aria-keyshortcuts": "n" }, icon("plus"), "New session"),
      h("a", { href: "#/inbox", class: "button inbox-link", "aria-keyshortcuts": "i" }, icon("inbox"), "Inbox", waiting),
    ),
    h("div", { class: "scope" }, appSelect, userInput),
    lists,
    runs.element,
    sessions.element,
    account.element,
  );
}

/** The two lists, one of which is shown. */
const choices = new Map(Object.entries({ Runs: runs, Sessions: sessions }).map(([name, list]) => [list, h("button", { type: "button", onclick: () => showList(list) }, name)]));
const lists = h("div", { class: "tabs lists", role: "group", "aria-label": "Lists" }, ...choices.values());
function showList(shown) {
  for (const [list, choice] of choices) {
    list.element.hidden = list !== shown;
    choice.setAttribute("aria-pressed", String(list === shown));
  }
  shown.refresh();
}

function turn() {
  theme.set(isDark() ? "light" : "dark");
  applyTheme();
  fill(themeButton, icon(themeIcon()));
}

/** Read which apps there are: again while there are none, and whenever something has changed. */
async function loadApps() {
  let found;
  try {
    found = await get(["list-apps"]);
  } catch (error) {
    if (error.status !== 401) loadAppsLater();
    return;
  }
  if (!found.length) loadAppsLater();
  if (JSON.stringify(found) === JSON.stringify(apps)) return;
  apps = found;
  const { app } = place.get();
  fill(appSelect, h("option", { value: "" }, "All apps"), appOptions());
  appSelect.value = apps.includes(app) ? app : "";
  if (newApp.isConnected) chooseApp();
  await account.known();
  narrow();
}

function loadAppsLater() {
  clearTimeout(appsDue);
  appsDue = setTimeout(loadApps, appsWait);
  appsWait = Math.min(2 * appsWait, 30000);
}

const appOptions = () => (apps ?? []).map((name) => h("option", { value: name }, name));

function moved() {
  place.set({ app: appSelect.value, user: userInput.value.trim() });
  if (account.caller) narrow();
}

/** Only operators choose a user: all others see what is theirs. */
function showUsers({ userId, isOperator }) {
  for (const each of [userInput, newUser, newUserLabel]) each.hidden = !isOperator;
  newUser.placeholder = userId ?? "user";
  noApp.textContent = isOperator ? "No apps yet: no worker serves one to this server's task queue, store and Temporal, and none has a session. Start a worker there: durable-adk worker TARGET." : "You have no apps yet. Ask the operator of this server.";
  view?.refresh(); // it says who is who
}

function narrow() {
  const { userId, isOperator } = account.caller;
  const user = isOperator ? userInput.value.trim() : userId;
  const where = { app: appSelect.value, user };
  runs.narrow(where);
  inbox.narrow(where);
  sessions.narrow({ apps: where.app ? [where.app] : (apps ?? []), user: user || userId || "user", isOperator });
}

/** On a small screen the list of runs takes the place of the main part. */
function nameParts() {
  const isMain = small.matches && document.body.dataset.view === "runs";
  side.setAttribute("role", isMain ? "main" : "complementary");
  sideTitle.hidden = !isMain;
}

// --- what is shown ---

function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, ...names] = namesIn(path);
  const run = new URLSearchParams(query).get("run");
  document.body.dataset.view = kind || "runs";
  nameParts();
  if (kind === "s" && names.length === 3) return showSession(names, run);
  leave();
  mark(null);
  if (kind === "inbox") fill(main, inbox.element);
  else if (kind === "new") fill(main, newSession());
  else fill(main, welcome());
  tellAges();
  main.querySelector("h1, textarea")?.focus({ preventScroll: true });
  return undefined;
}

/** The names in an address; of one that cannot be read, none. */
function namesIn(path) {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    announce("This address is not valid.");
    return [""];
  }
}

function mark(session, run) {
  runs.mark(session, run);
  sessions.mark(session);
}

function leave() {
  view?.stop();
  view = null;
  shownKey = "";
}

function showSession([appName, userId, sessionId], run) {
  const key = JSON.stringify([appName, userId, sessionId]);
  mark({ appName, userId, sessionId }, run);
  if (key === shownKey) {
    if (run) view.goTo(run);
    return;
  }
  const writes = document.activeElement?.id === "composer"; // the keys would mean something else elsewhere
  leave();
  shownKey = key;
  view = new SessionView({ appName, userId, sessionId }, run, () => account.caller);
  fill(main, view.element);
  if (writes) view.focus();
  else view.element.querySelector("h1").focus({ preventScroll: true });
}

function welcome() {
  const start = h("a", { href: "#/new", class: "button primary" }, icon("plus"), "New session");
  const about = "Choose a run on the left, or start a session. Runs are durable: you can close this page or restart the server, and continue where you left off.";
  return h("section", { class: "page" }, h("h1", { class: "sr" }, "Runs"), empty("Nothing selected.", about, start));
}

const keepPlace = () => newPlace.set({ app: newApp.value, user: newUser.value.trim() });
const newApp = h("select", { id: "new-app", onchange: keepPlace });
const newUser = h("input", { id: "new-user", hidden: true, autocomplete: "off", spellcheck: "false", oninput: keepPlace });
const newUserLabel = h("label", { for: newUser.id, hidden: true }, "User");
const noApp = h("p", { class: "quiet" });

/** Offer the apps that there are for the new session. */
function chooseApp() {
  const chosen = newApp.value || placeOfDraft().app || appSelect.value;
  fill(newApp, appOptions());
  newApp.value = apps?.includes(chosen) ? chosen : (apps?.[0] ?? "");
  noApp.hidden = apps?.length !== 0;
}

const placeOfDraft = () => (draftOf("new").get() ? newPlace.get() : {});

function newSession() {
  newApp.value = "";
  chooseApp();
  newUser.value = placeOfDraft().user || userInput.value.trim();
  const draft = draftOf("new");
  const aim = () => ({ app: newApp.value, user: newUser.value.trim() });
  const composer = new Composer(async (content, { key, said, to: { app, user } }) => {
    const caller = await account.known();
    const userId = (caller.isOperator && user) || caller.userId || "user";
    if (!app) throw new Error(noApp.textContent);
    const sessionId = key; // so a message that is sent again is in the same session
    const body = { appName: app, userId, sessionId, newMessage: content, streaming: true, createSession: true };
    const started = await startOnce(body, key, said);
    if (started.queued) queuedIn(body).set({ [started.invocationId]: summaryOf(content) });
    runs.refresh();
    if (!composer.element.isConnected) return; // somebody looks at something else by now
    draftOf(app, userId, sessionId).set(draft.get()); // written since the message was sent
    draft.set(null);
    const at = [app, userId, sessionId].map(encodeURIComponent).join("/");
    location.hash = `#/s/${at}?run=${encodeURIComponent(started.invocationId)}`;
  }, ["new"], aim);
  return h(
    "section",
    { class: "page new", "aria-labelledby": "new-title" },
    h("header", null, h("a", { class: "button icon-button back", href: "#/", "aria-label": "Back to the runs" }, icon("back")), h("h1", { id: "new-title" }, "New session")),
    noApp,
    h("div", { class: "choice" }, h("label", { for: "new-app" }, "App"), newApp, newUserLabel, newUser),
    composer.element,
  );
}

// --- live ---

/** Have the lists read again, at most twice a second. While the page is hidden only its title shows any of it. */
let due = null;
function changed() {
  due ??= setTimeout(() => {
    due = null;
    inbox.refresh();
    if (document.hidden) return;
    loadApps();
    runs.refresh();
    sessions.refresh();
    view?.refresh();
  }, 500);
}

function connected({ state, why }) {
  live.className = `live ${state}`;
  live.title = why ?? "";
  live.textContent = { live: "live", connecting: "connecting…", waiting: "reconnecting…", refused: "not live", absent: "not live" }[state] ?? "";
  if (state === "live") changed();
}

// --- dialogs ---

function dialog(title, ...content) {
  const close = () => element.close();
  const element = h("dialog", { "aria-label": title, onclose: () => element.remove() }, h("header", null, h("h2", null, title), button("Close", close, { only: "cross" })), content);
  document.body.append(element);
  element.showModal();
  return element;
}

function openHelp() {
  dialog("Keys", h("dl", { class: "keys-help" }, KEYS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])));
}

function openPrices() {
  const known = Object.entries(prices.get());
  const lines = known.map(([model, [prompt, answer]]) => `${model} ${prompt} ${answer}`).join("\n");
  const input = h("textarea", { rows: 6, class: "mono", "aria-label": "Prices", spellcheck: "false", placeholder: "gemini-2.5-flash 0.30 2.50", value: lines });
  const save = () => {
    const read = readPrices(input.value);
    if (read.wrong.length) {
      const lines = read.wrong.map(([number, line]) => `Line ${number} cannot be read: ${line}`);
      fill(trouble, failure({ message: `${lines.join("; ")}. Write the model and two plain numbers, such as ${input.placeholder}` }));
      input.focus();
      return;
    }
    prices.set(read.prices);
    element.close();
    view?.refresh();
  };
  const about = h("p", { class: "hint" }, "Dollars per million tokens. Write one model per line: its name, the price of input tokens, the price of output tokens. * stands for all other models. Prices are kept in this browser only.");
  const trouble = h("div");
  const element = dialog("Prices", about, input, trouble, h("div", { class: "actions" }, button("Save", save, { kind: "primary" })));
}

// --- keys ---

/** What j and k move through: what is in the main part, or the runs. */
function chosen(step) {
  const cards = [...main.querySelectorAll(".cards > .answer:not(.settled)")];
  const entries = [...main.querySelectorAll(".timeline:not([hidden]) .entry")];
  const inSide = side.contains(document.activeElement) || (!cards.length && !entries.length);
  const all = inSide ? [...side.querySelectorAll(".runs:not([hidden]) .run-list a")] : cards.length ? cards : entries;
  const now = all.find((each) => each.contains(document.activeElement));
  const next = neighbour(all, now, step);
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** The card that a key decides: the one that is chosen, itself or by its entry, or the only one in sight. */
function card() {
  const focused = document.activeElement ?? document.body;
  const chosen = focused.closest(".answer") ?? (focused.matches(".entry") ? focused.querySelector(".answer") : null);
  if (chosen) return chosen.matches(".settled") ? null : chosen;
  const open = [...main.querySelectorAll(".answer:not(.settled)")].filter((each) => each.getClientRects().length);
  return open.length === 1 ? open[0] : null;
}

const PRESSED = {
  j: () => chosen(1),
  k: () => chosen(-1),
  "/": () => (runs.element.hidden ? sessions : runs).focusSearch(),
  n: () => (location.hash = "#/new"),
  i: () => (location.hash = "#/inbox"),
  c: () => document.getElementById("composer")?.focus(),
  a: () => card()?.approve?.(),
  r: () => card()?.reject?.(),
  t: turn,
  "?": openHelp,
  Enter: () => document.activeElement?.querySelector?.(":scope > .more")?.click(),
};

function pressed(event) {
  const { target, key } = event;
  const typing = target.matches?.("input:not([type=checkbox]), textarea, select");
  if (key === "Escape" && typing) target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (key === "Enter" && !target.matches?.(".entry")) return;
  const act = PRESSED[key];
  if (!act || (event.repeat && !"jk".includes(key))) return; // a key that is held decides once
  event.preventDefault();
  act();
}

applyTheme();
userInput.value = place.get().user;
showList(runs);
drawSide();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment says what is shown
  main.focus();
});
small.addEventListener("change", nameParts);
addEventListener("hashchange", route);
addEventListener("keydown", pressed);
addEventListener("durable-adk:unauthorized", ({ detail }) => account.refused(detail));
route();
account.load();
loadApps();
followChanges(changed, connected);
setInterval(tellAges, 30000);
document.addEventListener("visibilitychange", () => document.hidden || changed());
