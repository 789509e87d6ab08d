// The list of sessions, also of those without a run: search, open, delete.

import { get, request, sessionPath } from "./api.js";
import { age, button, failure, fill, h, look } from "./dom.js";
import { brief, count } from "./format.js";
import { Rows } from "./rows.js";
import { oneAtATime } from "./tasks.js";

const MOST = 200;
/** Of the newest runs, which say how their sessions are, as many are read at first, and then again for what has changed. */
const [RUNS, CHANGED] = [200, 40];

export class Sessions {
  element = h("nav", { class: "runs", "aria-label": "Sessions", hidden: true });
  #list = h("ul", { class: "run-list" });
  #foot = h("p", { class: "quiet" });
  #trouble = h("div");
  #search = h("input", { type: "search", placeholder: "Search sessions", "aria-label": "Search sessions", "aria-keyshortcuts": "/", oninput: () => this.#draw() });
  #where = { apps: [], user: "" };
  #items = [];
  #runs = new Map(); // those that are known, by their ids
  #current = null;
  #asked = null; // the session that is deleted if it is confirmed: `{key, title, asks}`
  #rows = new Rows(this.#list, () => h("li"), (row, about) => (about.asks ? this.#drawQuestion(row, about) : this.#drawRow(row, about)));
  #onDeleted;

  /** @param {function(object)} onDeleted is told of a session that was deleted here */
  constructor(onDeleted) {
    this.#onDeleted = onDeleted;
    this.element.append(h("div", { class: "search" }, this.#search), this.#trouble, this.#list, h("div", { class: "foot" }, this.#foot));
  }

  focusSearch() {
    this.#search.focus();
    this.#search.select();
  }

  /** Show a user's sessions of some apps: `{apps, user, isOperator}`; operators may choose another. */
  narrow(where) {
    this.#where = where;
    this.#runs = new Map();
    return this.refresh({ anew: true });
  }

  /** Mark the session that is shown; null: none is. */
  mark(key) {
    this.#current = key && nameOf(key);
    this.#draw();
  }

  /** Read the sessions again, if they are shown. */
  refresh = oneAtATime(async (signal) => {
    if (this.element.hidden) return;
    const { apps, user } = this.#where;
    try {
      const [runs, ...found] = await Promise.all([
        this.#readRuns(signal),
        ...apps.map((app) => get(["apps", app, "users", user, "sessions"], {}, { signal })),
      ]);
      if (signal.aborted) return;
      this.#items = newestFirst(withRuns(found.flat(), runs));
      fill(this.#trouble);
      this.#draw();
    } catch (error) {
      if (!signal.aborted) fill(this.#trouble, failure(error, () => this.refresh()));
    }
  });

  /** The runs that are known by now. They come by the time of their status: behind one that has not changed none has. */
  async #readRuns(signal) {
    const { apps, user } = this.#where;
    const known = this.#runs;
    const newest = async (limit) => (await get(["invocations"], { app_name: apps.length === 1 ? apps[0] : null, user_id: user, limit }, { signal })).invocations;
    let read = known.size ? await newest(CHANGED) : [];
    if (!read.some((each) => known.get(runOf(each))?.updateTime === each.updateTime)) read = await newest(RUNS);
    for (const each of read) known.set(runOf(each), each);
    return known;
  }

  #draw() {
    const found = matching(this.#items, this.#search.value);
    this.#rows.show(found.slice(0, MOST).map((each) => [nameOf(keyOf(each)), this.#about(each)]));
    const more = found.length > MOST ? `Showing the newest ${MOST} of ${count(found.length, "session")}.` : "";
    const none = found.length ? "" : this.#search.value.trim() ? "No matching sessions." : "No sessions yet.";
    const whose = this.#where.isOperator ? `Showing sessions of ${this.#where.user}. Enter another user above.` : "";
    const says = [more, none, whose].filter(Boolean).join(" ");
    if (this.#foot.textContent !== says) this.#foot.textContent = says;
  }

  /** What the row of a session shows. The question whether to delete it stays until it is answered. */
  #about(session) {
    const key = keyOf(session);
    const name = nameOf(key);
    if (this.#asked && name === nameOf(this.#asked.key)) return this.#asked;
    const { status, pending, lastUpdateTime } = session;
    return { key, title: titleOf(session), status, pending, lastUpdateTime, isCurrent: name === this.#current };
  }

  #drawRow(row, { key, title, status, pending, lastUpdateTime, isCurrent }) {
    if (row.className !== "with-action") {
      const href = `#/s/${[key.appName, key.userId, key.sessionId].map(encodeURIComponent).join("/")}`;
      row.className = "with-action";
      fill(row, h("a", { href, "data-session": nameOf(key), title: key.sessionId }), button("Delete", () => this.#ask({ key, title: row.querySelector(".said").textContent, asks: true }), { only: "bin" }));
    }
    const [link, bin] = row.children;
    const says = status === "paused" && pending ? "sr" : "state"; // the number that waits says so
    const waits = pending > 0 && h("span", { class: "badge" }, `${pending} waiting`);
    look(link, status ?? "", isCurrent);
    fill(
      link,
      h("span", { class: "said" }, title),
      h("span", { class: "meta" }, status && [h("span", { class: says }, status), says === "state" && " · "], h("span", { class: "whose" }, key.appName), " · ", age(lastUpdateTime), waits),
    );
    for (const name of ["aria-label", "title"]) bin.setAttribute(name, `Delete ${title}`);
  }

  /** Ask whether to delete a session; null: no more. */
  #ask(about) {
    this.#asked = about;
    this.#draw();
  }

  #drawQuestion(row, { key, title }) {
    const trouble = h("div");
    const keep = () => {
      this.#ask(null);
      row.querySelector(".icon-button")?.focus();
    };
    const go = async () => {
      try {
        await request("DELETE", sessionPath(key));
      } catch (error) {
        fill(trouble, failure(error));
        return;
      }
      if (nameOf(this.#asked?.key ?? {}) === nameOf(key)) this.#asked = null;
      this.#items = this.#items.filter((each) => nameOf(keyOf(each)) !== nameOf(key));
      this.#draw();
      this.#onDeleted(key);
    };
    const sure = button("Delete", go, { kind: "danger small" });
    row.className = "asks";
    fill(row, h("p", null, "Permanently delete ", h("b", null, title), " with its runs and events?"), trouble, h("div", { class: "actions" }, sure, button("Keep", keep, { kind: "small" })));
    queueMicrotask(() => sure.focus());
  }
}

const keyOf = ({ appName, userId, id }) => ({ appName, userId, sessionId: id });
const runOf = (run) => JSON.stringify([nameOf(run), run.invocationId]);
const nameOf = ({ appName, userId, sessionId }) => JSON.stringify([appName, userId, sessionId]);

/** A session is called what its owner calls it, else what its first run that is known began with, else by its id. */
const titleOf = ({ id, state, message }) => state?.__session_metadata__?.displayName || brief(message ?? "", 80) || id;

/** Sessions, each with the status of its newest run, the message of its first one, and how many calls wait. */
function withRuns(sessions, runs) {
  const bySession = new Map(sessions.map((each) => [nameOf(keyOf(each)), []]));
  for (const [id, run] of runs) {
    const own = bySession.get(nameOf(run));
    if (own) own.push(run);
    else runs.delete(id); // its session is deleted, and may be made again
  }
  return sessions.map((session) => {
    const own = bySession.get(nameOf(keyOf(session))).toSorted((one, other) => one.startTime - other.startTime);
    const pending = own.reduce((sum, run) => sum + (run.pending ?? 0), 0);
    return { ...session, status: own.at(-1)?.status, message: own.find((run) => run.message)?.message, pending };
  });
}

const newestFirst = (sessions) => sessions.toSorted((one, other) => other.lastUpdateTime - one.lastUpdateTime);

/** The sessions that have a text in their id, name, message or app. */
export function matching(sessions, text) {
  const wanted = text.trim().toLowerCase();
  return sessions.filter((each) => [each.id, titleOf(each), each.appName].some((one) => one.toLowerCase().includes(wanted)));
}
