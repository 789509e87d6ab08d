// The entries of a run, each with what it opens to; drawn again only where they are others.

import { h } from "./dom.js";
import { entryElement, looksOf } from "./entries.js";
import { clock } from "./format.js";

export class EntryList {
  element = h("ol", { class: "entries" });
  #context;
  #open = new Set(); // keys of the entries that show their details
  #entries = new Map(); // key -> {element, looks}
  #committed = null; // what was drawn
  #pending;
  #children;
  #writing = false;
  #said = "";

  /**
   * @param {object} context what `entryElement` takes but `open`, `pending`, `childrenOf` and `toggle`
   * @param {function()} opened is told of details that are shown or hidden
   */
  constructor(context, opened) {
    const toggle = (entry) => {
      if (!this.#open.delete(entry.key)) this.#open.add(entry.key);
      this.#committed = null;
      opened();
    };
    this.#context = { ...context, open: this.#open, toggle };
  }

  /**
   * @param {object} run as `Conversation` has it
   * @param {Map} pending the calls that wait by id; another one if any of it is another
   * @param {Map} children the elements of the agents that calls ran as tools, by call id; likewise
   */
  draw(run, pending, children) {
    // What is committed is drawn again only if any of it may look otherwise; a session may have thousands.
    const isSame = this.#committed === run.committed && this.#pending === pending && this.#children === children;
    if (isSame && !this.#writing && run.entries.length === run.committed.length) return;
    const drawn = isSame ? run.committed.length : 0;
    this.#committed = run.committed;
    this.#pending = pending;
    this.#children = children;
    this.#writing = run.entries.length > run.committed.length;
    const context = { ...this.#context, pending, childrenOf: (id) => children.get(id) ?? [] };
    const keys = new Set(run.entries.map((each) => each.key));
    for (const [key, { element }] of this.#entries) {
      if (keys.has(key)) continue;
      element.remove();
      this.#entries.delete(key);
    }
    let said = drawn ? this.#said : "";
    let at = this.element.children[drawn] ?? null;
    for (const entry of run.entries.slice(drawn)) {
      const time = clock(entry.time);
      entry.tells = time !== said; // the same minute again is noise
      said = time || said;
      const looks = looksOf(entry, context);
      let known = this.#entries.get(entry.key);
      if (!known || known.looks !== looks) {
        const focused = document.activeElement;
        const held = known?.element.contains(focused);
        const element = entryElement(entry, context);
        if (known) known.element.replaceWith(element);
        if (known?.element === at) at = element;
        if (held) (element.contains(focused) ? focused : (element.querySelector(":scope > .more") ?? element)).focus({ preventScroll: true });
        known = { element, looks };
        this.#entries.set(entry.key, known);
      }
      if (known.element === at) at = at.nextElementSibling;
      else this.element.insertBefore(known.element, at);
    }
    this.#said = said;
  }
}
