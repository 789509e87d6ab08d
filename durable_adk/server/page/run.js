// One run in the timeline of its session: what it has come to, what may be done to it, and its entries.

import { post, postInvocation, sessionPath } from "./api.js";
import { answerCard } from "./answer.js";
import { CLOSED } from "./conversation.js";
import { announce, button, failure, fill, h, icon } from "./dom.js";
import { entryElement, errorText, looksOf } from "./entries.js";
import { clock, costOf, count, duration } from "./format.js";

export class RunView {
  element;
  #id;
  #session;
  #head = h("header", { class: "run-head" });
  #list = h("ol", { class: "entries" });
  #trouble = h("div");
  #rewind; // one for all times that the head is drawn: it may have asked
  #open = new Set(); // keys of the entries that show their details
  #entries = new Map(); // key -> {element, looks}
  #about;
  #committed = null; // what was drawn
  #pending;
  #writing = false;
  #said = "";
  #headLooks = "";

  /**
   * @param {string} id of the invocation
   * @param {number} number among the session's runs
   * @param {object} session `{key, caller()}`, and whom to tell: `refresh()` of an answer, `asked(id)` of what was asked of
   *     the run, `rewound()`, `opened()` of details that are shown or hidden, `showArtifact(name, version)`
   */
  constructor(id, number, session) {
    this.#id = id;
    this.#session = session;
    this.#rewind = this.#rewindButton();
    const title = h("h2", { class: "sr" }, `Run ${number}`);
    this.element = h("section", { class: "run", "data-run": id, "aria-label": `Run ${number}` }, title, this.#head, this.#list);
  }

  /**
   * @param {object} run as `Conversation` has it
   * @param {object} more `{pending, about, priced, isInvocation}`: the calls that wait by id, what the server says of the
   *     invocation, the prices, and whether the server knows one
   */
  draw(run, { pending, about, priced, isInvocation }) {
    this.#about = about;
    this.element.classList.toggle("rewound", run.rewound);
    this.#drawEntries(run, pending);
    this.#head.hidden = !isInvocation && !run.usage.calls;
    this.#drawHead(run, priced);
  }

  #drawEntries(run, pending) {
    // What is committed is drawn again only if any of it may look otherwise; a session may have thousands.
    const isSame = this.#committed === run.committed && this.#pending === pending;
    if (isSame && !this.#writing && run.entries.length === run.committed.length) return;
    const drawn = isSame ? run.committed.length : 0;
    this.#committed = run.committed;
    this.#pending = pending;
    this.#writing = run.entries.length > run.committed.length;
    const context = this.#context();
    const keys = new Set(run.entries.map((each) => each.key));
    for (const [key, { element }] of this.#entries) {
      if (keys.has(key)) continue;
      element.remove();
      this.#entries.delete(key);
    }
    let said = drawn ? this.#said : "";
    let at = this.#list.children[drawn] ?? null;
    for (const entry of run.entries.slice(drawn)) {
      const time = clock(entry.time);
      entry.tells = time !== said; // the same minute again is noise
      said = time || said;
      const looks = looksOf(entry, context);
      let known = this.#entries.get(entry.key);
      if (!known || known.looks !== looks) {
        const held = known?.element.contains(document.activeElement);
        const element = entryElement(entry, context);
        if (known) known.element.replaceWith(element);
        if (known?.element === at) at = element;
        if (held) (element.querySelector(":scope > .more") ?? element).focus({ preventScroll: true });
        known = { element, looks };
        this.#entries.set(entry.key, known);
      }
      if (known.element === at) at = at.nextElementSibling;
      else this.#list.insertBefore(known.element, at);
    }
    this.#said = said;
  }

  #context() {
    const { key, caller, refresh, opened, showArtifact } = this.#session;
    return {
      key,
      caller: caller()?.userId ?? "user", // as which a message is sent if the server knows nobody
      open: this.#open,
      pending: this.#pending,
      card: (pending) => answerCard(pending, { done: refresh }),
      temporalUrl: () => webAddress(this.#about?.temporalUrl),
      showArtifact,
      toggle: (entry) => {
        if (!this.#open.delete(entry.key)) this.#open.add(entry.key);
        this.#committed = null;
        opened();
      },
    };
  }

  /** What the run has come to: above its entries, and in sight while they are. */
  #drawHead(run, priced) {
    const about = this.#about;
    const status = run.status ?? about?.status ?? "";
    const cost = costOf(run.usage.models, priced);
    const looks = JSON.stringify([status, run.error, run.rewound, run.usage, cost, about?.updateTime, about?.temporalUrl]);
    if (looks === this.#headLooks) return;
    this.#headLooks = looks;
    const took = about && CLOSED.has(status) ? duration(about.updateTime - about.startTime) : "";
    const facts = [took, run.usage.calls && count(run.usage.calls, "model call"), run.usage.total && count(run.usage.total, "token"), cost];
    const held = this.#head.contains(document.activeElement) ? document.activeElement : null;
    const temporal = webAddress(about?.temporalUrl);
    fill(
      this.#head,
      h("span", { class: `status ${status}` }, h("span", { class: "light" }), run.rewound ? "rewound" : status || "…"),
      h("span", { class: "facts" }, facts.filter(Boolean).join(" · ")),
      h(
        "span",
        { class: "run-actions" },
        ["running", "paused"].includes(status) && button("Cancel", () => this.#cancel(), { kind: "quiet-button" }),
        CLOSED.has(status) && !run.rewound && this.#rewind,
        temporal && h("a", { href: temporal, target: "_blank", rel: "noopener noreferrer" }, "Temporal", icon("out")),
      ),
      run.error && h("div", { class: "failure" }, errorText(run.error)),
      this.#trouble,
    );
    held?.focus({ preventScroll: true });
  }

  /** Rewinding asks first, elsewhere than where it was pressed, and is done once. */
  #rewindButton() {
    const keep = () => {
      fill(this.#trouble);
      each.focus();
    };
    const go = async () => {
      for (const one of [each, sure]) one.disabled = true;
      try {
        await post(sessionPath(this.#session.key, "rewind"), { invocationId: this.#id });
        announce("The session was rewound.");
        fill(this.#trouble);
        this.#session.rewound();
      } catch (error) {
        for (const one of [each, sure]) one.disabled = false;
        fill(this.#trouble, failure(error));
        each.focus();
      }
    };
    const sure = button("Confirm", go, { kind: "danger small" });
    const question = h("div", { class: "asks" }, h("span", null, "Rewind the session to before this run?"), sure, button("Keep", keep, { kind: "small" }));
    const each = button("Rewind", () => {
      fill(this.#trouble, question);
      sure.focus();
    }, { kind: "quiet-button" });
    return each;
  }

  async #cancel() {
    try {
      fill(this.#trouble, h("p", { class: "quiet" }, "Sending…"));
      await postInvocation(this.#session.key, this.#id, "cancel", {});
      fill(this.#trouble);
      this.#session.asked(this.#id);
    } catch (error) {
      fill(this.#trouble, failure(error));
    }
  }
}

/** An address that may be linked to. */
function webAddress(address) {
  return /^https?:\/\//i.test(address ?? "") ? address : null;
}
