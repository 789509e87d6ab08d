// What a session has beside its timeline: the state and what changed it, and its artifacts.

import { get, sessionPath } from "./api.js";
import { artifactsOf, stateHistory } from "./conversation.js";
import { failure, fill, h } from "./dom.js";
import { brief, clock, count, exact, pretty } from "./format.js";
import { mediaOf } from "./media.js";
import { stateOf } from "./state.js";
import { oneAtATime } from "./tasks.js";

/** The state as it is, each key with the events that changed it. */
export class StatePanel {
  element = h("div");
  #key;
  #events;
  #go;
  #session = null;
  #looks = "";

  /**
   * @param {object} key the session
   * @param {function(): Array} events returns the events that are known, `[[seq, event]]`
   * @param {function(number)} go shows an event
   */
  constructor(key, events, go) {
    this.#key = key;
    this.#events = events;
    this.#go = go;
  }

  /** Read the state again: other sessions change what they share. */
  refresh = oneAtATime(async () => {
    try {
      const { state = {}, lastUpdateTime } = await get(sessionPath(this.#key));
      this.#session = { state, lastUpdateTime };
      this.draw();
    } catch (error) {
      this.#looks = "";
      fill(this.element, failure(error, () => this.refresh()));
    }
  });

  /** Show what is known, once the state was read. */
  draw() {
    if (!this.#session) return;
    const all = stateOf(stateHistory(this.#events()), this.#session).filter((each) => !each.key.startsWith("__"));
    const looks = JSON.stringify(all);
    if (looks === this.#looks) return;
    this.#looks = looks;
    const open = [...this.element.querySelectorAll("details[open]")].map((each) => each.dataset.name);
    const held = this.element.contains(document.activeElement) && document.activeElement.closest("details")?.dataset.name;
    const none = empty("No state yet.", "A key appears here when a tool, a callback or an agent's output_key sets it.");
    fill(this.element, all.length ? h("ul", { class: "state" }, all.map((each) => stateKey(each, this.#go, open.includes(each.key)))) : none);
    if (held) this.element.querySelector(`[data-name="${CSS.escape(held)}"] > summary`)?.focus();
  }
}

function stateKey({ key, value, changes, elsewhere }, go, open) {
  const removed = value === null;
  const shared = /^(app|user):/.test(key);
  const facts = [changes.length ? count(changes.length, "change") : shared ? "set elsewhere" : "from the start", elsewhere && "changed elsewhere"];
  const head = h(
    "summary",
    null,
    h("span", { class: "mono name" }, key),
    h("span", { class: "value mono" }, removed ? "removed" : brief(value, 120)),
    h("span", { class: "facts" }, facts.filter(Boolean).join(", ")),
  );
  const now = (elsewhere || !changes.length) && h("pre", { class: "code" }, h("code", null, removed ? "removed" : pretty(value)));
  const rows = changes.map((change) =>
    h(
      "li",
      null,
      h("button", { type: "button", class: "link", onclick: () => go(change.seq), title: exact(change.time) }, `#${change.seq}`),
      h("span", { class: "quiet" }, `${change.author}, ${clock(change.time)}`),
      h("pre", { class: "code" }, h("code", null, change.value === null ? "removed" : pretty(change.value))),
    ),
  );
  return h("li", null, h("details", { open, "data-name": key }, head, now, changes.length > 0 && h("ol", { class: "history" }, rows)));
}

/** The artifacts by name and version, as the server lists them; the one that is chosen is shown below. */
export class ArtifactsPanel {
  element = h("div");
  #key;
  #events;
  #list = h("ul", { class: "artifacts" });
  #versions = h("p", { class: "versions" });
  #view = h("div", { class: "artifact-view" });
  #title = h("h2", { class: "sr" });
  #chosen = { name: null, version: null };
  #shown = "";

  /**
   * @param {object} key the session
   * @param {function(): Array} events returns the events that are known, `[[seq, event]]`
   */
  constructor(key, events) {
    this.#key = key;
    this.#events = events;
  }

  /** Show an artifact; without a version, its newest. */
  choose(name, version) {
    this.#chosen = { name, version };
    return this.refresh();
  }

  /** Read the list again: not all artifacts are saved by events. */
  refresh = oneAtATime(async () => {
    try {
      const names = await this.#get();
      if (!names.length) {
        this.#shown = "";
        fill(this.element, empty("No artifacts yet.", "What a tool saves with save_artifact appears here."));
        return;
      }
      const newest = artifactsOf(this.#events()).at(-1)?.name;
      const name = [this.#chosen.name, newest].find((each) => names.includes(each)) ?? names.at(-1);
      this.#draw(names, name, await this.#get(name, "versions"));
    } catch (error) {
      this.#shown = "";
      fill(this.element, failure(error, () => this.refresh()));
    }
  });

  #get(...more) {
    return get(sessionPath(this.#key, "artifacts", ...more));
  }

  #draw(names, name, versions) {
    const wanted = name === this.#chosen.name ? this.#chosen.version : null;
    const version = versions.includes(wanted) ? wanted : Math.max(...versions);
    const held = this.element.contains(document.activeElement) && document.activeElement.textContent;
    const choice = (kind, label, pressed, onclick) => h("button", { type: "button", class: kind, "aria-pressed": String(pressed), onclick }, label);
    fill(this.#list, names.map((each) => h("li", null, choice("chip", each, each === name, () => this.choose(each, null)))));
    fill(this.#versions, versions.length > 1 && versions.map((each) => choice("link", `version ${each}`, each === version, () => this.choose(name, each))));
    fill(this.#title, name);
    if (!this.#view.isConnected || !this.#shown) fill(this.element, this.#title, this.#list, this.#versions, this.#view);
    if (held) [...this.element.querySelectorAll("button")].find((each) => each.textContent === held)?.focus();
    this.#show(name, version);
  }

  async #show(name, version) {
    const shown = JSON.stringify([name, version]);
    if (shown === this.#shown) return; // a version does not change
    this.#shown = shown;
    this.#view.setAttribute("aria-busy", "true");
    fill(this.#view, h("p", { class: "quiet" }, "Loading…"));
    let content;
    try {
      const part = await this.#get(name, "versions", String(version));
      const text = typeof part.text === "string" && { mimeType: "text/plain", bytes: new TextEncoder().encode(part.text) };
      content = mediaOf(part.inlineData ?? text, name);
    } catch (error) {
      content = failure(error, () => {
        this.#shown = "";
        this.refresh();
      });
    }
    if (shown !== this.#shown) return; // another one was chosen meanwhile
    fill(this.#view, content);
    this.#view.removeAttribute("aria-busy");
  }
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), more);
}
