// The messages of a session that were sent and stand in no run yet.

import { get, getInvocation, postInvocation, sessionPath } from "./api.js";
import { announce, button, failure, fill, h } from "./dom.js";
import { brief } from "./format.js";
import { queuedIn } from "./preferences.js";

export class MessageQueue {
  element = h("div", { class: "queue", role: "status" });
  #key;
  #isRun;
  #isActive;
  #messages; // invocation id -> the message that it starts with, if it was sent here
  #cancelled = new Set(); // what does not wait any more, though it may be listed for a moment

  /**
   * @param {object} key which session
   * @param {function(string): boolean} isRun says whether a message stands in a run
   * @param {function(): boolean} isActive says whether a run is under way
   */
  constructor(key, isRun, isActive) {
    this.#key = key;
    this.#isRun = isRun;
    this.#isActive = isActive;
    this.#messages = new Map(Object.entries(queuedIn(key).get()));
  }

  get size() {
    return this.#messages.size;
  }

  add(invocationId, message) {
    if (!this.#isRun(invocationId)) this.#messages.set(invocationId, message);
    this.draw();
  }

  remove(invocationId) {
    if (this.#messages.delete(invocationId)) this.draw();
  }

  /** Ask the server which messages wait; its list has those that a worker has seen. */
  async refresh() {
    const listed = new Set();
    try {
      for (const { invocationId } of await get(sessionPath(this.#key, "queue"))) listed.add(invocationId);
    } catch {
      // each is asked for
    }
    for (const id of listed) if (!this.#messages.has(id) && !this.#cancelled.has(id) && !this.#isRun(id)) this.#messages.set(id, id);
    const look = async (id) => {
      try {
        if ((await getInvocation(this.#key, id)).queued) return;
      } catch (error) {
        if (error.status !== 404) return;
      }
      this.#messages.delete(id);
    };
    await Promise.all([...this.#messages.keys()].filter((id) => !listed.has(id)).map(look));
    this.draw();
  }

  draw() {
    const why = this.#isActive() ? "Waiting for the current run to end: " : "Waiting for a worker: ";
    const looks = JSON.stringify([why, ...this.#messages]);
    if (looks === this.element.dataset.looks) return;
    this.element.dataset.looks = looks;
    queuedIn(this.#key).set(Object.fromEntries(this.#messages));
    const line = ([id, text]) => h("p", { class: "quiet" }, why, brief(text, 80), " ", button("Cancel", () => this.#takeBack(id), { kind: "quiet-button", "aria-label": `Cancel ${brief(text, 80)}` }));
    fill(this.element, [...this.#messages].map(line));
  }

  async #takeBack(id) {
    try {
      await postInvocation(this.#key, id, "cancel", {});
      announce("The message was cancelled.");
    } catch (error) {
      if (error.status !== 404) {
        this.element.append(failure(error));
        return;
      }
    }
    this.#cancelled.add(id);
    this.#messages.delete(id);
    this.refresh();
  }
}
