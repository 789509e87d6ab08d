// The list of runs: search, statuses with live counts, and what each is about.

import { get } from "./api.js";
import { age, button, failure, fill, h, look } from "./dom.js";
import { Rows } from "./rows.js";
import { oneAtATime } from "./tasks.js";

const STATUSES = ["running", "paused", "completed", "failed", "cancelled"];
const PAGE = 40;
/** Most runs that the server lists at once. */
const MOST = 200;
/** Most runs that the server looks at for a text in one request: a page may have less than it could. */
const LOOKED_AT = 2000;

/** Users and apps may have sessions of the same id. */
const sessionOf = ({ appName, userId, sessionId }) => JSON.stringify([appName, userId, sessionId]);
/** Sessions may have runs of the same id. */
const keyOf = ({ appName, userId, sessionId, invocationId }) => JSON.stringify([appName, userId, sessionId, invocationId]);

export class Runs {
  element = h("nav", { class: "runs", "aria-label": "Runs" });
  #chips = h("div", { class: "chips", role: "group", "aria-label": "Statuses" });
  #list = h("ul", { class: "run-list" });
  #more = button("Show more", () => this.#readMore(), { kind: "small", hidden: true });
  #none = h("p", { class: "quiet" });
  #failed = h("div"); // of what is below the list
  #trouble = h("div");
  #search;
  #status = "";
  #where = {};
  #items = [];
  #next = null;
  #current = {};
  #query = ""; // what the runs that are shown were asked by
  #loaded = false;
  #searches = 1; // pages that the server gave up filling
  #counts = {};
  #rows = new Rows(this.#list, makeRow, drawRow);
  #statuses = new Rows(this.#chips, (about) => this.#makeChip(about), drawChip);

  constructor() {
    let timer;
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#narrowed(), 200);
    };
    this.#search = h("input", { type: "search", id: "search", placeholder: "Search runs", "aria-label": "Search runs", "aria-keyshortcuts": "/", oninput: later });
    this.element.append(h("div", { class: "search" }, this.#search), this.#chips, this.#trouble, this.#list, h("div", { class: "foot" }, this.#failed, this.#none, this.#more));
    this.#drawChips();
  }

  focusSearch() {
    this.#search.focus();
    this.#search.select();
  }

  narrow(where) {
    this.#where = where;
    return this.#narrowed();
  }

  /** Mark the session that is shown, or one run of it; null: none is. */
  mark(session, invocationId) {
    this.#current = { session: session && sessionOf(session), invocationId };
    this.#draw();
  }

  /** What is asked is another: an answer that is under way is not wanted. */
  #narrowed() {
    return this.refresh({ anew: true });
  }

  /** Read the counts and all that is shown again. */
  refresh = oneAtATime(async (signal) => {
    const query = JSON.stringify(this.#asks());
    const [wanted, searches] = query === this.#query ? [Math.max(PAGE, this.#items.length), this.#searches] : [PAGE, 1];
    try {
      const where = { app_name: this.#where.app, user_id: this.#where.user };
      const [page, counts] = await Promise.all([this.#pages(wanted, searches, signal), get(["invocations", "counts"], where, { signal })]);
      if (signal.aborted) return;
      if (query === this.#query && (this.#items.length > wanted || this.#searches > searches)) {
        this.refresh(); // more were shown meanwhile
        return;
      }
      this.#query = query;
      this.#searches = searches;
      this.#items = page.invocations;
      this.#next = page.nextPageToken ?? null;
      this.#loaded = true;
      fill(this.#trouble);
      this.#counts = counts;
      this.#drawChips();
      this.#draw();
    } catch (error) {
      if (!signal.aborted) fill(this.#trouble, failure(error, () => this.refresh()));
    }
  });

  /** What the list is narrowed by. */
  #asks() {
    const { app, user } = this.#where;
    return { app_name: app, user_id: user, status: this.#status, query: this.#search.value.trim() };
  }

  #page(token, limit = PAGE, signal = undefined) {
    return get(["invocations"], { ...this.#asks(), limit, page_token: token }, { signal });
  }

  /** The first runs, as many as are wanted, in as few pages as the server makes of them; of pages that it gives up filling as many as were asked for. */
  async #pages(wanted, searches, signal) {
    const invocations = [];
    for (let [token, left] = [null, searches]; ; ) {
      const limit = Math.min(MOST, wanted - invocations.length);
      const page = await this.#page(token, limit, signal);
      invocations.push(...page.invocations);
      token = page.nextPageToken ?? null;
      if (page.invocations.length < limit) left -= 1;
      if (!token || !left || invocations.length >= wanted) return { invocations, nextPageToken: token };
    }
  }

  async #readMore() {
    const query = this.#query;
    if (query !== JSON.stringify(this.#asks())) return; // these rows go as soon as others come
    try {
      const page = await this.#page(this.#next);
      if (query !== this.#query) return;
      if (page.invocations.length < PAGE) this.#searches += 1;
      const known = new Set(this.#items.map(keyOf));
      this.#items = [...this.#items, ...page.invocations.filter((each) => !known.has(keyOf(each)))];
      this.#next = page.nextPageToken ?? null;
      this.#draw();
    } catch (error) {
      if (query === this.#query) fill(this.#failed, failure(error, () => this.#readMore()));
    }
  }

  #drawChips() {
    const statuses = [...STATUSES, ...(this.#counts.abandoned ? ["abandoned"] : [])];
    this.#statuses.show(statuses.map((status) => [status, { status, number: this.#counts[status], pressed: this.#status === status }]));
  }

  #makeChip({ status }) {
    const choose = () => {
      this.#status = this.#status === status ? "" : status;
      this.#narrowed();
      this.#drawChips();
    };
    return h("button", { type: "button", onclick: choose });
  }

  #draw() {
    if (!this.#loaded) return;
    const { session, invocationId } = this.#current;
    const isCurrent = (each) => session === sessionOf(each) && (!invocationId || invocationId === each.invocationId);
    this.#rows.show(this.#items.map((each) => [keyOf(each), { ...each, isCurrent: isCurrent(each), ofAll: !this.#where.user }]));
    fill(this.#failed);
    this.#more.hidden = !this.#next;
    const narrowed = this.#search.value.trim() || this.#status;
    this.#none.hidden = this.#items.length > 0;
    this.#none.textContent = narrowed ? "No matching runs." : "No runs yet. Send the first message.";
    const goesOn = this.#next && !this.#items.length;
    if (goesOn) this.#none.textContent = `None among the newest ${(this.#searches * LOOKED_AT).toLocaleString("en")} runs.`;
    this.#more.textContent = goesOn ? "Search further" : "Show more";
  }
}

function drawChip(chip, { status, number, pressed }) {
  chip.className = `chip status ${number ? status : `${status} idle`}`;
  chip.setAttribute("aria-pressed", String(pressed));
  fill(chip, h("span", { class: "light" }), status, h("span", { class: "number" }, number ?? "–"));
}

function makeRow({ appName, userId, sessionId, invocationId }) {
  const href = `#/s/${[appName, userId, sessionId].map(encodeURIComponent).join("/")}?run=${encodeURIComponent(invocationId)}`;
  return h("li", null, h("a", { href, "data-run": invocationId }));
}

function drawRow(row, { appName, userId, status, message, updateTime, pending, isCurrent, ofAll }) {
  const says = status === "paused" && pending > 0 ? "sr" : "state"; // the number that waits says so
  const waits = pending > 0 && h("span", { class: "badge" }, `${pending} waiting`);
  look(row.firstElementChild, status, isCurrent);
  fill(
    row.firstElementChild,
    h("span", { class: "light", "aria-hidden": "true" }),
    h("span", { class: "said" }, message || "(no text)"),
    h("span", { class: "meta" }, h("span", { class: says }, status), says === "state" && " · ", h("span", { class: "whose" }, appName, ofAll && [" · ", userId]), " · ", age(updateTime), waits),
  );
}
