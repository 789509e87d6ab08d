// All that waits for a person, over all sessions.

import { get } from "./api.js";
import { answerCard } from "./answer.js";
import { announce, button, failure, fill, h, icon } from "./dom.js";
import { count } from "./format.js";
import { empty } from "./panels.js";

export class Inbox {
  element = h("section", { class: "page inbox", "aria-labelledby": "inbox-title" });
  #list = h("div", { class: "cards" });
  #trouble = h("div");
  #lead = h("p", { class: "lead" });
  #cards = new Map();
  #refused = h("div");
  #onCount;
  #onRefused;
  #where = {};

  /**
   * @param {function(number)} onCount is told how many calls wait
   * @param {function()} onRefused is told that an answer came too late, so that lists are old
   */
  constructor(onCount, onRefused) {
    this.#onCount = onCount;
    this.#onRefused = onRefused;
    const back = h("a", { class: "button icon-button back", href: "#/", "aria-label": "Back to the runs" }, icon("back"));
    this.element.append(h("header", null, back, h("h1", { id: "inbox-title", tabindex: -1 }, "Inbox")), this.#lead, this.#trouble, this.#refused, this.#list);
  }

  /** Show only what waits of an app and a user; empty: of all. */
  narrow(where) {
    this.#where = where;
    return this.refresh();
  }

  /** Read again what waits. Cards that are there keep what was put into them. */
  async refresh() {
    let pending;
    try {
      pending = await get(["pending"], { app_name: this.#where.app, user_id: this.#where.user });
    } catch (error) {
      fill(this.#trouble, failure(error, () => this.refresh()));
      return;
    }
    fill(this.#trouble);
    this.#draw([...pending].sort((one, other) => one.askedAt - other.askedAt));
    this.#onCount(pending.length);
  }

  /** Say why an answer was refused also when its card is gone. */
  #answered({ name }, why) {
    const dismiss = () => fill(this.#refused);
    fill(this.#refused, why && h("div", { class: "notice", role: "status" }, h("span", null, `${name}: ${why}`), button("Dismiss", dismiss, { kind: "small" })));
    if (why) this.#onRefused();
    this.refresh();
  }

  #draw(pending) {
    const now = new Set(pending.map(nameOf));
    for (const [id, card] of this.#cards) {
      if (now.has(id)) continue;
      this.#cards.delete(id);
      card.remove();
    }
    for (const each of pending) {
      const name = nameOf(each);
      if (this.#cards.has(name)) continue;
      const card = answerCard(each, { done: (why) => this.#answered(each, why), place: whereabouts(each) });
      this.#cards.set(name, card);
      this.#list.append(card);
      announce(`${each.name} waits for you.`);
    }
    this.#list.querySelector(":scope > .empty")?.remove();
    if (!pending.length) this.#list.append(empty("Nothing waits for you.", "Calls that need an approval, an answer or a credential appear here by themselves. The runs that asked hold no process while they wait."));
    fill(this.#lead, pending.length ? `${count(pending.length, "call waits", "calls wait")} for a person, oldest first.` : "");
  }
}

/** Tells calls apart: sessions may have invocations and calls of the same ids. */
function nameOf({ appName, userId, sessionId, invocationId, callId }) {
  return JSON.stringify([appName, userId, sessionId, invocationId, callId]);
}

function whereabouts({ appName, userId, sessionId, invocationId }) {
  const at = `#/s/${[appName, userId, sessionId].map(encodeURIComponent).join("/")}?run=${encodeURIComponent(invocationId)}`;
  return h("p", { class: "where", title: sessionId }, h("a", { href: at }, `${appName} · ${userId} · ${sessionId}`));
}
