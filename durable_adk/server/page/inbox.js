// All that waits for a person, over all sessions.

import { get } from "./api.js";
import { answerCard } from "./answer.js";
import { announce, button, failure, fill, h, icon } from "./dom.js";
import { brief, count } from "./format.js";
import { empty } from "./panels.js";
import { Rows } from "./rows.js";
import { oneAtATime } from "./tasks.js";

const PAGE = 50;

export class Inbox {
  element = h("section", { class: "page inbox", "aria-labelledby": "inbox-title" });
  #list = h("div", { class: "cards" });
  #trouble = h("div");
  #lead = h("p", { class: "lead" });
  #cards = new Rows(this.#list, (about) => this.#card(about));
  #refused = h("div");
  #more = button("Show more", () => this.#readMore(), { kind: "small", hidden: true });
  #wanted = PAGE;
  #onCount;
  #onRefused;
  #where = {};

  /**
   * @param {function(string)} onCount is told how many calls wait, as text; "" for none
   * @param {function()} onRefused is told that an answer came too late, so that lists are old
   */
  constructor(onCount, onRefused) {
    this.#onCount = onCount;
    this.#onRefused = onRefused;
    const back = h("a", { class: "button icon-button back", href: "#/", "aria-label": "Back to the runs" }, icon("back"));
    this.element.append(h("header", null, back, h("h1", { id: "inbox-title", tabindex: -1 }, "Inbox")), this.#lead, this.#trouble, this.#refused, this.#list, h("div", { class: "foot" }, this.#more));
  }

  /** Show only what waits of an app and a user; empty: of all. */
  narrow(where) {
    this.#where = where;
    this.#wanted = PAGE;
    return this.refresh({ anew: true });
  }

  /** Read again what waits. Cards that are there keep what was put into them. */
  refresh = oneAtATime(async (signal) => {
    const pending = [];
    let next;
    try {
      do {
        const where = { app_name: this.#where.app, user_id: this.#where.user, limit: PAGE, page_token: next };
        const page = await get(["pending"], where, { signal });
        pending.push(...page.pending);
        next = page.nextPageToken;
        if (signal.aborted) return;
      } while (next && pending.length < this.#wanted);
    } catch (error) {
      if (!signal.aborted) fill(this.#trouble, failure(error, () => this.refresh()));
      return;
    }
    fill(this.#trouble);
    this.#draw([...pending].sort((one, other) => one.requestedAt - other.requestedAt));
    const says = !next && pending.length ? count(pending.length, "call is", "calls are") : `Showing the first ${pending.length} calls`;
    fill(this.#lead, pending.length ? `${says} waiting for a person, oldest first.` : "");
    this.#more.hidden = !next;
    this.#onCount(pending.length ? `${pending.length}${next ? "+" : ""}` : "");
  });

  #readMore() {
    this.#wanted += PAGE;
    return this.refresh();
  }

  /** Say why an answer was refused also when its card is gone. */
  #answered({ name }, why) {
    const dismiss = () => fill(this.#refused);
    fill(this.#refused, why && h("div", { class: "notice", role: "status" }, h("span", null, `${name}: ${why}`), button("Dismiss", dismiss, { kind: "small" })));
    if (why) this.#onRefused();
    this.refresh();
  }

  #draw(pending) {
    this.#cards.show(pending.length ? pending.map((each) => [nameOf(each), each]) : [["", null]]);
  }

  #card(about) {
    if (!about) return empty("Nothing is waiting for you.", "Calls that need an approval, an answer or a credential appear here. Runs use no process while they wait.");
    announce(`${about.name} is waiting for you.`);
    return answerCard(about, { done: (why) => this.#answered(about, why), place: whereabouts(about) });
  }
}

/** Tells calls apart: sessions may have invocations and calls of the same ids. */
function nameOf({ appName, userId, sessionId, invocationId, callId }) {
  return JSON.stringify([appName, userId, sessionId, invocationId, callId]);
}

/** Where a call was made, by which agent, and what the run began with. */
function whereabouts({ appName, userId, sessionId, invocationId, author, message }) {
  const at = `#/s/${[appName, userId, sessionId].map(encodeURIComponent).join("/")}?run=${encodeURIComponent(invocationId)}`;
  const place = h("p", { class: "where", title: sessionId }, h("a", { href: at }, `${appName} · ${userId} · ${sessionId}`));
  return [place, author && h("p", { class: "facts" }, `Called by ${author}`, message && ` for “${brief(message, 160)}”`)];
}
