// One session: its runs as a timeline, what they say as they say it, and where one writes to it.

import { get, getInvocation, inSession, sessionPath, startOnce, steerOnce } from "./api.js";
import { answerCard } from "./answer.js";
import { Composer, summaryOf } from "./composer.js";
import { CLOSED, Conversation, sumOf } from "./conversation.js";
import { announce, button, failure, fill, h, icon } from "./dom.js";
import { count, usageFacts } from "./format.js";
import { GraphPanel } from "./graph.js";
import { ArtifactsPanel, empty, StatePanel } from "./panels.js";
import { prices } from "./preferences.js";
import { MessageQueue } from "./queue.js";
import { RunView } from "./run.js";
import { Stream } from "./stream.js";
import { oneAtATime } from "./tasks.js";

/** Milliseconds from a reason to read what waits until it is read: a session of many runs tells of all of them at once. */
const QUIET = 150;
/** The tabs, and the id of the element that each shows. */
const TABS = { Timeline: "timeline", Graph: "panel", State: "panel", Artifacts: "panel" };

export class SessionView {
  element;
  #key;
  #conversation = new Conversation();
  #stream;
  #composer;
  #pending = new Map();
  #runs = new Map(); // invocation id -> its view
  #parts; // what the views of runs know of the session
  #about = new Map(); // invocation id -> what the server says of it
  #asking = new Map(); // invocation id -> timer
  #stale = new Set(); // invocations that the server is asked about once they are in sight
  #inSight = new Set();
  #sight;
  #due = null; // timer of the next reading of what waits
  #queue;
  #session = null;
  #tab = "Timeline";
  #panels; // name of a tab -> what it shows
  #frame = 0;
  #goal; // the run to scroll to when it is there
  #stuck = true; // at the end: stay there
  #loaded = false;
  #absent = false; // it is not there, yet
  #ticker = null;
  #stopped = false;

  #timeline = h("div", { class: "timeline", id: TABS.Timeline, role: "tabpanel", "aria-labelledby": "tab-Timeline" });
  #panel = h("div", { class: "panel", id: TABS.State, role: "tabpanel" });
  #tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Session views" });
  #summary = h("p", { class: "facts" });
  #connection = h("div", { class: "connection" });
  #scroller;
  #latest;

  /**
   * @param {object} key which session: `{appName, userId, sessionId}`
   * @param {string?} run the invocation to show, else its end
   * @param {function(): object?} caller says who looks: `{userId}`
   */
  constructor(key, run, caller = () => null) {
    this.#key = key;
    this.#goal = run;
    this.#queue = new MessageQueue(key, (id) => this.#runs.has(id), () => Boolean(this.#active()));
    this.#parts = {
      key,
      caller,
      refresh: () => this.refresh(),
      asked: (id) => this.#ask(id, 50),
      rewound: () => this.element.querySelector("h1").focus({ preventScroll: true }),
      opened: () => {
        this.#stuck = false;
        this.#later();
      },
      changed: () => this.#later(),
      showArtifact: (name, version) => this.#showArtifact(name, version),
    };
    this.#composer = new Composer((content, options) => this.#send(content, options), [key.appName, key.userId, key.sessionId]);
    this.#latest = button("Latest", () => this.#toEnd(), { kind: "latest small", hidden: true });
    this.#scroller = h("div", { class: "scroller", onscroll: () => this.#scrolled() }, this.#timeline, this.#panel);
    this.#sight = new IntersectionObserver((changes) => this.#seen(changes), { root: this.#scroller, rootMargin: "200px" });
    const title = h("h1", { tabindex: -1, title: key.sessionId }, key.sessionId);
    const place = h("p", { class: "where", title: key.sessionId }, `${key.appName} · ${key.userId} · ${key.sessionId}`);
    const head = h("header", { class: "session-head" }, h("a", { class: "button icon-button back", href: "#/", "aria-label": "Back to the runs" }, icon("back")), h("div", { class: "title" }, title, place), this.#summary);
    this.element = h("section", { class: "session", "aria-label": `Session ${key.sessionId}` }, head, this.#tabs, this.#connection, this.#scroller, h("div", { class: "session-foot" }, this.#latest, this.#queue.element, this.#composer.element));
    const events = () => this.#conversation.events();
    this.#panels = { State: new StatePanel(key, events, (seq) => this.#goToSeq(seq)), Artifacts: new ArtifactsPanel(key, events) };
    this.#drawTabs();
    this.#loadGraph();
    fill(this.#timeline, h("p", { class: "quiet loading" }, "Loading…"));
    this.#stream = new Stream(sessionPath(key, "events"), { onItem: (item) => this.#take(item), onState: (state) => this.#connected(state) });
    this.#stream.run();
    this.#loadSession();
    this.refresh();
  }

  stop() {
    this.#stopped = true;
    this.#stream.stop();
    cancelAnimationFrame(this.#frame);
    clearInterval(this.#ticker);
    clearTimeout(this.#due);
    this.#sight.disconnect();
    for (const timer of this.#asking.values()) clearTimeout(timer);
    for (const run of this.#runs.values()) run.stop();
  }

  focus() {
    this.#composer.focus();
  }

  /** Show a run of the session. */
  goTo(run) {
    this.#goal = run;
    this.#later();
  }

  /** Read again what waits in the session, and the panel that is shown, soon; several reasons at once are one reading. */
  refresh() {
    if (this.#absent) this.#stream.hurry();
    if (this.#stopped) return;
    this.#due ??= setTimeout(() => {
      this.#due = null;
      this.#read();
    }, QUIET);
  }

  #read = oneAtATime(async () => {
    this.#panels[this.#tab]?.refresh();
    const queue = this.#queue.refresh();
    try {
      const { pending } = await get(["pending"], { ...inSession(this.#key), limit: 200 });
      if (JSON.stringify(pending) === JSON.stringify([...this.#pending.values()])) return;
      this.#pending = new Map(pending.map((each) => [each.callId, each]));
      this.#later();
    } catch {
      // the inbox says so; the timeline is right without
    } finally {
      await queue;
    }
  });

  async #loadSession() {
    try {
      this.#session = await get(sessionPath(this.#key));
      if (!this.#session.events?.length) this.#loaded = true;
      this.#later();
    } catch {
      // the stream says what is wrong
    }
  }

  /** Offer the graph, if the app has one and the server knows it. */
  async #loadGraph() {
    try {
      const layout = await get(["apps", this.#key.appName, "graph"]);
      if (!layout) return;
      const { key, caller, refresh, showArtifact } = this.#parts;
      const who = () => caller()?.userId ?? "user";
      const writer = () => (key.userId === who() ? "You" : key.userId);
      const context = { key, caller: who, writer, card: (pending) => answerCard(pending, { done: refresh }), temporalUrl: () => null, showArtifact };
      this.#panels.Graph = new GraphPanel(layout, context, () => this.#later());
      this.#drawTabs();
    } catch {
      // the timeline is right without
    }
  }

  #take(item) {
    if (!this.#conversation.add(item)) return;
    this.#loaded = true;
    if (item.type === "status") {
      this.#ask(item.invocationId, 50);
      if (CLOSED.has(item.status)) announce(`Run ${item.status}.`);
    }
    if (item.type === "event") {
      this.#queue.remove(item.event.invocationId);
      this.#ask(item.event.invocationId, 400);
      if (item.event.author !== "user" && item.event.content?.parts?.some((part) => part.text)) announce(`${item.event.author} answered.`);
    }
    const { stateDelta, artifactDelta } = item.event?.actions ?? {};
    const saved = Object.keys({ ...stateDelta, ...artifactDelta }).length > 0;
    if (item.type === "status" || saved || item.event?.longRunningToolIds?.length || item.event?.author === "user") this.refresh();
    this.#later();
  }

  /** Ask the server about a run, soon or once it is in sight; one request at a time, however many reasons. */
  #ask(invocationId, wait) {
    if (!this.#conversation.isInvocation(invocationId)) return; // asked once its status is told
    this.#stale.add(invocationId);
    if (this.#asking.has(invocationId) || !this.#inSight.has(invocationId)) return;
    const timer = setTimeout(async () => {
      if (this.#inSight.has(invocationId)) await this.#readAbout(invocationId);
      this.#asking.delete(invocationId);
      if (!this.#stopped && this.#stale.has(invocationId)) this.#ask(invocationId, wait);
    }, wait);
    this.#asking.set(invocationId, timer);
  }

  async #readAbout(invocationId) {
    this.#stale.delete(invocationId);
    if (this.#conversation.hasCalls(invocationId)) this.#runs.get(invocationId)?.readChildren();
    try {
      const about = await getInvocation(this.#key, invocationId);
      if (this.#stopped) return;
      this.#about.set(invocationId, about);
      this.#conversation.setAttempts(invocationId, about.attempts ?? []);
      if (!this.#stale.has(invocationId)) this.#conversation.add({ type: "status", ...about }); // else the stream knows a newer one
      this.#later();
    } catch {
      // asked again at the next item
    }
  }

  #seen(changes) {
    for (const { target, isIntersecting } of changes) {
      const id = target.dataset.run;
      if (isIntersecting) this.#inSight.add(id);
      else this.#inSight.delete(id);
      if (isIntersecting && this.#stale.has(id)) this.#ask(id, 50);
    }
  }

  #connected({ state, until, error, failures, why }) {
    clearInterval(this.#ticker);
    if (state === "live" || (state === "waiting" && failures === 1 && !why)) {
      fill(this.#connection); // one gap of a moment is nobody's concern
      if (state === "live") {
        this.#arrived();
        this.refresh();
      }
      if (state === "live" && this.#runs.size) for (const id of this.#runs.keys()) if (!CLOSED.has(this.#about.get(id)?.status)) this.#ask(id, 100);
      return;
    }
    if (state === "refused" || state === "absent") {
      this.#absent = state === "absent";
      this.#loaded = true;
      const begins = this.#absent && this.#queue.size; // its first run creates it
      fill(this.#timeline, begins ? empty("This is a new session.", "The message is stored. Waiting for a worker to start…") : failure(error));
      fill(this.#connection);
    }
    if (state === "waiting") {
      const left = h("span");
      const tick = () => (left.textContent = `Retrying in ${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s.`);
      tick();
      this.#ticker = setInterval(tick, 500);
      const again = button("Try now", () => this.#stream.hurry(), { kind: "small" });
      const says = `Reconnecting… The run continues without this page. ${why}`;
      const held = this.#connection.contains(document.activeElement);
      announce(says); // once; nobody wants to hear the seconds
      fill(this.#connection, h("div", { class: "notice" }, h("span", null, says), left, again));
      if (held) again.focus();
    }
  }

  /** Show what was absent. */
  #arrived() {
    if (!this.#absent) return;
    this.#absent = false;
    fill(this.#timeline);
    this.#loadSession();
  }

  #later() {
    if (this.#frame || this.#stopped) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    if (this.#absent) return;
    const runs = this.#conversation.runs();
    if (this.#loaded) this.#timeline.querySelector(":scope > .loading")?.remove();
    this.#timeline.querySelector(":scope > .empty")?.remove();
    if (!runs.length && this.#loaded && !this.#timeline.querySelector(".failure")) {
      this.#timeline.append(empty("This is a new session.", "Write the first message below. Every event is stored before you see it, so you can close this page at any time."));
    }
    const priced = prices.get();
    for (const [index, run] of runs.entries()) {
      const id = run.invocationId;
      const shown = this.#runView(id, index);
      shown.draw(run, { pending: this.#pending, about: this.#about.get(id), priced, isInvocation: this.#conversation.isInvocation(id) });
    }
    this.#drawTitle();
    this.#summarize(runs);
    this.#queue.draw();
    if (this.#tab === "State") this.#panels.State.draw();
    if (this.#tab === "Graph") this.#panels.Graph.draw(runs, (id) => this.#conversation.eventsOf(id), this.#pending);
    if (this.#tab === "Timeline") this.#settle();
  }

  /** A session is called what its owner calls it, else what it began with. */
  #drawTitle() {
    const named = this.#session?.state?.__session_metadata__?.displayName;
    const title = named || this.#conversation.opening() || this.#key.sessionId;
    const place = this.element.querySelector("h1");
    if (place.textContent !== title) place.textContent = title;
  }

  #runView(id, index) {
    let shown = this.#runs.get(id);
    if (!shown) {
      shown = new RunView(id, index + 1, this.#parts);
      this.#runs.set(id, shown);
      this.#sight.observe(shown.element);
    }
    if (this.#timeline.children[index] !== shown.element) this.#timeline.insertBefore(shown.element, this.#timeline.children[index] ?? null);
    return shown;
  }

  #summarize(runs) {
    const all = runs.map(({ invocationId }) => this.#runs.get(invocationId).usageOfChildren);
    const ofTools = sumOf(all.filter(Boolean));
    const usage = sumOf([...runs.map((run) => run.usage), ofTools]);
    const unknown = ofTools.calls && runs.some(({ invocationId }, index) => !all[index] && this.#conversation.hasCalls(invocationId));
    const [, tokens, cost] = usageFacts(usage, prices.get());
    const least = unknown ? "at least " : ""; // runs that were not in sight may have had such agents, too
    const facts = [runs.length && count(runs.length, "run"), this.#conversation.lastSeq && count(this.#conversation.lastSeq, "event"), tokens && `${least}${tokens}`, cost && `${cost.startsWith(least) ? "" : least}${cost}`];
    const text = facts.filter(Boolean).join(" · ");
    if (this.#summary.textContent !== text) this.#summary.textContent = text;
    this.#composer.running(Boolean(this.#active()));
  }

  #active() {
    const runs = this.#conversation.runs();
    return runs.findLast?.((run) => (run.status ?? this.#about.get(run.invocationId)?.status) === "running");
  }

  async #send(content, { steer, key, said }) {
    this.#stuck = true;
    const active = this.#active();
    if (steer && active) return steerOnce(this.#key, active.invocationId, content, key, said);
    const started = await startOnce({ ...this.#key, newMessage: content, streaming: true, createSession: this.#absent && this.#queue.size > 0 }, key, said);
    const { invocationId, queued } = started;
    if (queued) this.#queue.add(invocationId, summaryOf(content));
    return started;
  }

  // --- tabs ---

  #drawTabs() {
    const tab = (name) => {
      const chosen = this.#tab === name;
      return h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": TABS[name], "aria-selected": String(chosen), tabindex: chosen ? 0 : -1, onclick: () => this.#choose(name), onkeydown: (event) => this.#moveTab(event) }, name);
    };
    fill(this.#tabs, this.#tabNames().map(tab));
    this.#panel.setAttribute("aria-labelledby", `tab-${this.#tab}`);
    this.#timeline.hidden = this.#tab !== "Timeline";
    this.#panel.hidden = this.#tab === "Timeline";
  }

  #tabNames() {
    return Object.keys(TABS).filter((name) => name === "Timeline" || this.#panels[name]);
  }

  #moveTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = this.#tabNames();
    this.#choose(names.at((names.indexOf(this.#tab) + step) % names.length));
    this.#tabs.querySelector("[aria-selected=true]").focus();
  }

  #choose(name) {
    this.#tab = name;
    this.#drawTabs();
    this.#latest.hidden = true;
    fill(this.#panel, this.#panels[name]?.element);
    this.#panels[name]?.refresh();
    this.#draw();
  }

  #showArtifact(name, version) {
    this.#panels.Artifacts.choose(name, version);
    this.#choose("Artifacts");
    this.#scroller.scrollTop = 0;
  }

  #goToSeq(seq) {
    this.#choose("Timeline");
    const entry = this.#timeline.querySelector(`[data-seq="${seq}"]`);
    entry?.scrollIntoView({ block: "center" });
    entry?.focus({ preventScroll: true });
  }

  // --- scrolling ---

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#stuck = scrollHeight - scrollTop - clientHeight < 60;
    this.#latest.hidden = this.#stuck || this.#tab !== "Timeline";
  }

  #settle() {
    const goal = this.#goal && this.#runs.get(this.#goal)?.element;
    if (goal) {
      this.#goal = null;
      if (goal !== this.#timeline.lastElementChild) {
        this.#stuck = false;
        goal.scrollIntoView({ block: "start" });
        return;
      }
    }
    if (this.#stuck) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else this.#scrolled();
  }

  #toEnd() {
    this.#stuck = true;
    this.#settle();
    this.#latest.hidden = true;
  }
}
