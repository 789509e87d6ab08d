// Where a person writes. A message that gets no answer is sent again under the same key, also by the next
// composer at the same place.

import { newKey } from "./api.js";
import { button, failure, fill, h } from "./dom.js";
import { brief } from "./format.js";
import { draftOf, underWayOf } from "./preferences.js";

const LARGEST = 700000;

/** What a message is called where it waits: its text, else its first file. */
export const summaryOf = ({ parts: [first] }) => first.text ?? first.inlineData.displayName;

export class Composer {
  element;
  #text;
  #files = [];
  #chosen = h("div", { class: "chosen" });
  #status = h("div", { class: "composer-status", "aria-live": "polite" });
  #actions = h("div", { class: "actions" });
  #send;
  #running = false;
  #sending = false;
  #key = null;
  #draft;
  #underWay;
  #aim;

  /**
   * @param {function(object, object): Promise} send sends a content: (content, {steer, key, said, to});
   *     `key` is the same until the message was sent or is another
   * @param {string[]} names of the place, for which is kept what is not sent
   * @param {function(): object?} aim says when a message is sent where it is to go (`to`)
   */
  constructor(send, names, aim = () => null) {
    this.#send = send;
    this.#draft = draftOf(...names);
    this.#underWay = underWayOf(...names);
    this.#aim = aim;
    const { text = "", key = null } = this.#draft.get() ?? {};
    this.#text = h("textarea", {
      id: "composer",
      rows: 1,
      "aria-label": "Message",
      placeholder: "Write a message",
      value: text,
      oninput: () => this.#changed(),
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.#submit(false);
        }
      },
    });
    const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => this.#attach(picker) });
    const clip = button("Attach files", () => picker.click(), { only: "clip" });
    const submit = (event) => {
      event.preventDefault();
      this.#submit(false);
    };
    this.element = h("form", { class: "composer", onsubmit: submit }, this.#status, this.#chosen, h("div", { class: "row" }, clip, picker, this.#text, this.#actions));
    this.#key = key;
    this.#grow();
    this.#draw();
    const left = this.#underWay.get();
    if (left) queueMicrotask(() => this.#resume(left)); // once whoever made it has shown it
  }

  /** Send on what another composer was sending here. What was to steer may be late: somebody decides. */
  #resume(message) {
    if (!message.steer) return this.#deliver(message);
    this.#underWay.set(null);
    this.#takeBack(message);
    return fill(this.#status, failure({ message: "This message may or may not have arrived. If you send it again, it is delivered only once." }));
  }

  focus() {
    this.#text.focus();
  }

  /** Say whether a run is active: a message can then steer it. */
  running(active) {
    if (active === this.#running) return;
    this.#running = active;
    this.#draw();
  }

  #draw() {
    const steer = this.#running && button("Steer", () => this.#submit(true), { kind: "small", title: "Deliver the message to the active run" });
    const label = this.#running ? "Send after this run" : "Send";
    fill(this.#actions, steer, button(label, () => this.#submit(false), { only: "send", kind: "primary round" }));
  }

  #put(text, files) {
    this.#text.value = text;
    this.#files = files;
    this.#drawFiles();
    this.#grow();
  }

  #changed() {
    this.#key = null;
    this.#grow();
  }

  /** Make room for the text, and keep it. */
  #grow() {
    const text = this.#text.value;
    // A key stands for the whole message, and files are not kept.
    this.#draft.set(text ? { text, key: this.#files.length ? null : this.#key } : null);
    this.#text.rows = Math.min(10, Math.max(1, this.#text.value.split("\n").length));
  }

  async #attach(picker) {
    for (const file of picker.files) {
      if (file.size > LARGEST) {
        fill(this.#status, failure({ message: `${file.name} is too large. A message can have at most 700 KB.` }));
        continue;
      }
      const data = await base64(file);
      this.#files.push({ inlineData: { mimeType: file.type || "application/octet-stream", displayName: file.name, data } });
    }
    picker.value = "";
    this.#key = null;
    this.#drawFiles();
  }

  #drawFiles() {
    const drop = (file) => () => {
      this.#files = this.#files.filter((each) => each !== file);
      this.#drawFiles();
    };
    fill(this.#chosen, this.#files.map((file) => h("span", { class: "chip" }, file.inlineData.displayName, button(`Remove ${file.inlineData.displayName}`, drop(file), { only: "cross" }))));
  }

  #submit(steer) {
    const text = this.#text.value.trim();
    if (this.#sending || (!text && !this.#files.length)) return;
    const parts = [...(text ? [{ text }] : []), ...this.#files];
    const key = this.#key ?? newKey();
    this.#key = null;
    this.#put("", []); // what is written from now on is the next message
    this.#deliver({ parts, key, steer, to: this.#aim() });
  }

  async #deliver(message) {
    const { parts, key, steer, to } = message;
    this.#sending = true;
    this.element.classList.add("busy");
    this.#underWay.set(message);
    const said = (words) => fill(this.#status, h("p", { class: "quiet" }, words, " ", brief(summaryOf(message), 80)));
    said("Sending…");
    try {
      await this.#send({ role: "user", parts }, { steer, key, said, to });
      if (this.#underWay.get()?.key === key) this.#underWay.set(null);
      fill(this.#status);
    } catch (error) {
      if (!this.element.isConnected) return; // the next composer here takes what is under way
      this.#underWay.set(null);
      this.#takeBack(message);
      fill(this.#status, failure(error, () => this.#submit(steer)));
    } finally {
      this.#sending = false;
      this.element.classList.remove("busy");
    }
  }

  /** Put a message that was not accepted in front of what was written since. */
  #takeBack({ parts, key }) {
    const [{ text = "" }] = parts;
    const isAlone = !this.#text.value && !this.#files.length;
    if (isAlone) this.#key = key; // still the same message
    this.#put([text, this.#text.value].filter(Boolean).join("\n"), [...parts.filter((each) => each.inlineData), ...this.#files]);
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
