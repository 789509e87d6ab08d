// Where a person writes. A message that gets no answer is sent again under the same key.

import { newKey } from "./api.js";
import { button, failure, fill, h } from "./dom.js";

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

  /**
   * @param {function(object, object): Promise} send sends a content: (content, {steer, key, said});
   *     `key` is the same until the message was sent or is another
   * @param {{get: function(): string?, set: function(string?)}} draft keeps the text that is not sent
   */
  constructor(send, draft) {
    this.#send = send;
    this.#draft = draft;
    this.#text = h("textarea", {
      id: "composer",
      rows: 1,
      "aria-label": "Message",
      placeholder: "Write a message",
      value: draft.get() ?? "",
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
    this.#grow();
    this.#draw();
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
    const steer = this.#running && button("Steer", () => this.#submit(true), { kind: "small", title: "Deliver it to the run that is active" });
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
    this.#draft.set(this.#text.value || null);
    this.#text.rows = Math.min(10, Math.max(1, this.#text.value.split("\n").length));
  }

  async #attach(picker) {
    for (const file of picker.files) {
      if (file.size > LARGEST) {
        fill(this.#status, failure({ message: `${file.name} is larger than a message may be (700 KB).` }));
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

  async #submit(steer) {
    const text = this.#text.value.trim();
    if (this.#sending || (!text && !this.#files.length)) return;
    this.#sending = true;
    this.element.classList.add("busy");
    const files = this.#files;
    const parts = [...(text ? [{ text }] : []), ...files];
    const key = this.#key ?? newKey();
    const said = (words) => fill(this.#status, h("p", { class: "quiet" }, words));
    said("Sending…");
    this.#put("", []); // what is written from now on is the next message
    this.#key = null;
    try {
      await this.#send({ role: "user", parts }, { steer, key, said });
      fill(this.#status);
    } catch (error) {
      const isAlone = !this.#text.value && !this.#files.length;
      this.#put([text, this.#text.value].filter(Boolean).join("\n"), [...files, ...this.#files]);
      if (isAlone) this.#key = key; // still the same message
      fill(this.#status, failure(error, () => this.#submit(steer)));
    } finally {
      this.#sending = false;
      this.element.classList.remove("busy");
    }
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
