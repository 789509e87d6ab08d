// The agents that calls of a run ran as tools: each below its call, with its own steps once they are opened.

import { getEvents, getInvocation } from "./api.js";
import { CLOSED, Conversation, sumOf } from "./conversation.js";
import { failure, fill, h, icon } from "./dom.js";
import { EntryList } from "./entry_list.js";
import { duration, usageFacts } from "./format.js";
import { oneAtATime } from "./tasks.js";

/** Milliseconds until the server is asked again about a call that runs, at first and at most: no stream tells of these agents. */
const SOON = 1000;
const LATE = 10000;
/** They wait for nobody. */
const PENDING = new Map();

export class Children {
  /** Their elements, by the id of the call; another map if there are others. */
  elements = new Map();
  #key;
  #id;
  #session;
  #known = null; // as the server lists them
  #views = new Map(); // session id -> its view
  #priced;
  #timer = null;
  #wait = SOON;
  #stopped = false;

  /**
   * @param {object} key the session of the calls
   * @param {string} id of the invocation, which is theirs too
   * @param {object} session `caller()`: the id of who looks, and whom to tell, as of `RunView`
   */
  constructor(key, id, session) {
    this.#key = key;
    this.#id = id;
    this.#session = session;
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** Read again which there are. */
  refresh = oneAtATime(async () => {
    try {
      const known = await getInvocation(this.#key, this.#id, "children");
      if (this.#stopped) return;
      if (JSON.stringify(known) !== JSON.stringify(this.#known)) this.#wait = SOON;
      this.show(known);
      this.#session.changed();
    } catch {
      // asked again at the next reason
    }
  });

  /** @param {object[]} known what the server says of each */
  show(known) {
    const elements = new Map();
    for (const about of known) {
      const { callId, sessionId } = about;
      const view = this.#views.get(sessionId) ?? new ChildView({ ...this.#key, sessionId }, this.#id, this.#session);
      this.#views.set(sessionId, view);
      view.show(about, this.#priced);
      elements.set(callId, [...(elements.get(callId) ?? []), view.element]);
    }
    const isSame = this.#known?.length === known.length;
    this.#known = known;
    if (!isSame) this.elements = elements;
  }

  /** Draw those that are known, and look for others as long as a call of the run has not returned. */
  draw(run, priced) {
    this.#priced = priced;
    for (const view of this.#views.values()) view.draw(priced);
    const runs = run.status === "running" && run.entries.some(({ kind, state }) => kind === "call" && state === "running");
    if (!runs) {
      clearTimeout(this.#timer);
      this.#timer = null;
    } else if (!this.#stopped) {
      this.#timer ??= setTimeout(async () => {
        this.#wait = Math.min(1.5 * this.#wait, LATE);
        if (!document.hidden) await this.refresh();
        this.#timer = null;
        this.#session.changed();
      }, this.#wait);
    }
  }

  /** What their models have cost; null: nobody knows, yet. */
  get usage() {
    return this.#known && sumOf(this.#known.flatMap(usagesOf));
  }
}

/** What the models of an agent have cost, and those of the agents that it ran as tools. */
function usagesOf({ models = [], children = [] }) {
  const own = models.map(({ model, calls, promptTokens, candidatesTokens, thoughtsTokens, totalTokens }) => {
    const counts = { prompt: promptTokens, candidates: candidatesTokens + thoughtsTokens };
    return { calls, ...counts, total: totalTokens, models: { [model]: counts } };
  });
  return [...own, ...children.flatMap(usagesOf)];
}

/** One of them: how it went, and its steps. */
class ChildView {
  element = h("section", { class: "child" });
  #key;
  #id;
  #about;
  #details = null; // read with its steps
  #conversation = new Conversation();
  #children;
  #list;
  #open = false;
  #priced;
  #looks = "";
  #steps = h("div", { class: "steps", hidden: true });
  #head = h("button", { type: "button", class: "child-head", "aria-expanded": "false", onclick: () => this.#toggle() });

  constructor(key, id, session) {
    this.#key = key;
    this.#id = id;
    const opened = () => {
      this.#drawSteps();
      session.opened();
    };
    this.#children = new Children(key, id, session);
    this.#list = new EntryList({
      key,
      caller: session.caller,
      writer: () => "Question",
      inside: key.sessionId,
      temporalUrl: () => this.#details?.temporalUrl,
      showArtifact: session.showArtifact,
    }, opened);
    this.element.append(this.#head, this.#steps);
  }

  show(about, priced) {
    this.#about = about;
    this.#children.show(about.children);
    this.draw(priced);
    if (this.#open && !CLOSED.has(this.#details?.status)) this.#read();
  }

  draw(priced) {
    this.#priced = priced;
    const { tool, status, startTime, updateTime } = this.#about;
    const took = CLOSED.has(status) ? duration(updateTime - startTime) : "";
    const facts = [took, ...usageFacts(sumOf(usagesOf(this.#about)), priced)].filter(Boolean).join(" · ");
    const looks = JSON.stringify([status, facts]);
    if (looks !== this.#looks) {
      this.#looks = looks;
      fill(this.#head, icon("chevron"), h("span", { class: "author" }, `Steps of ${tool}`), h("span", { class: `status ${status}` }, h("span", { class: "light" }), status), h("span", { class: "facts" }, facts));
    }
    if (this.#open) this.#drawSteps();
  }

  #toggle() {
    this.#open = !this.#open;
    this.#head.setAttribute("aria-expanded", String(this.#open));
    this.#steps.hidden = !this.#open;
    if (this.#open && !this.#details) {
      fill(this.#steps, h("p", { class: "quiet" }, "Loading…"));
      this.#read();
    }
  }

  /** Read what is not known of its steps, yet. */
  #read = oneAtATime(async () => {
    try {
      const details = await getInvocation(this.#key, this.#id); // first: one that has ended has no further events
      for (const item of await getEvents(this.#key, this.#id, this.#conversation.lastSeq)) this.#conversation.add(item);
      this.#conversation.setAttempts(this.#id, details.attempts);
      this.#conversation.add({ ...details, type: "status" });
      this.#details = details;
      if (this.#list.element.parentNode !== this.#steps) fill(this.#steps, this.#list.element);
      this.#drawSteps();
    } catch (error) {
      fill(this.#steps, failure(error, () => this.#read()));
    }
  });

  #drawSteps() {
    const [run] = this.#conversation.runs();
    if (!run) return;
    this.#children.draw({ ...run, status: null }, this.#priced); // whoever lists this agent asks about its own, too
    this.#list.draw(run, PENDING, this.#children.elements);
  }
}
