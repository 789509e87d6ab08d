// One run in the timeline of its session: what it has come to, what may be done to it, and its entries.

import { post, postInvocation, sessionPath } from "./api.js";
import { answerCard } from "./answer.js";
import { Children } from "./children.js";
import { CLOSED, sumOf } from "./conversation.js";
import { announce, button, failure, fill, h, icon } from "./dom.js";
import { errorText, webAddress } from "./entries.js";
import { EntryList } from "./entry_list.js";
import { duration, shareOfTools, usageFacts } from "./format.js";

export class RunView {
  element;
  #id;
  #session;
  #head = h("header", { class: "run-head" });
  #list;
  #children;
  #trouble = h("div");
  #rewind; // one for all times that the head is drawn: it may have asked
  #about;
  #headLooks = "";

  /**
   * @param {string} id of the invocation
   * @param {number} number among the session's runs
   * @param {object} session `{key, caller()}`, and whom to tell: `refresh()` of an answer, `asked(id)` of what was asked of
   *     the run, `rewound()`, `opened()` of details that are shown or hidden, `changed()` of what agents did that ran as
   *     tools, `showArtifact(name, version)`
   */
  constructor(id, number, session) {
    this.#id = id;
    this.#session = session;
    this.#rewind = this.#rewindButton();
    const { key, caller, refresh, opened, changed, showArtifact } = session;
    const who = () => caller()?.userId ?? "user"; // as which a message is sent if the server knows nobody
    this.#list = new EntryList({
      key,
      caller: who,
      writer: () => (key.userId === who() ? "You" : key.userId),
      card: (pending) => answerCard(pending, { done: refresh }),
      temporalUrl: () => this.#about?.temporalUrl,
      showArtifact,
    }, opened);
    this.#children = new Children(key, id, { caller: who, opened, changed, showArtifact });
    const title = h("h2", { class: "sr" }, `Run ${number}`);
    this.element = h("section", { class: "run", "data-run": id, "aria-label": `Run ${number}` }, title, this.#head, this.#list.element);
  }

  /**
   * @param {object} run as `Conversation` has it
   * @param {object} more `{pending, about, priced, isInvocation}`: the calls that wait by id, what the server says of the
   *     invocation, the prices, and whether the server knows one
   */
  draw(run, { pending, about, priced, isInvocation }) {
    this.#about = about;
    this.element.classList.toggle("rewound", run.rewound);
    this.#children.draw(run, priced);
    this.#list.draw(run, pending, this.#children.elements);
    this.#head.hidden = !isInvocation && !run.usage.calls;
    this.#drawHead(run, priced);
  }

  /** Read again which agents ran as tools, if any calls were made. */
  readChildren() {
    return this.#children.refresh();
  }

  stop() {
    this.#children.stop();
  }

  /** Model calls and tokens of the agents that ran as tools; null if they were not read, yet. */
  get usageOfChildren() {
    return this.#children.usage;
  }

  /** What the run has come to: above its entries, and in sight while they are. */
  #drawHead(run, priced) {
    const about = this.#about;
    const status = run.status ?? about?.status ?? "";
    const ofChildren = this.#children.usage ?? sumOf([]);
    const usage = sumOf([run.usage, ofChildren]);
    const places = about?.error?.at ?? []; // for operators
    const unfinished = about?.unfinished ?? [];
    const looks = JSON.stringify([unfinished, status, run.error, places, run.rewound, usage, ofChildren, priced, about?.updateTime, about?.temporalUrl]);
    if (looks === this.#headLooks) return;
    this.#headLooks = looks;
    const took = about && CLOSED.has(status) ? duration(about.updateTime - about.startTime) : "";
    const facts = [took, ...usageFacts(usage, priced), shareOfTools(ofChildren, priced)];
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
      unfinished.map((reason) => h("p", { class: "notice" }, reason)),
      places.length > 0 && h("div", { class: "places facts mono" }, places.map((place) => h("div", null, `at ${place}`))),
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
