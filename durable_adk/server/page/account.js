// Who uses the page: what the server says of them, and the token that they sign in with.

import { get, token } from "./api.js";
import { button, failure, fill, h } from "./dom.js";

const AGAIN = 3000;

export class Account {
  element = h("div", { class: "account", hidden: true });
  /** What the server says: `{userId, isOperator}`; null: nothing yet. */
  caller = null;
  #dialog;
  #asking = false;
  #waiting = [];
  #onKnown;

  /**
   * @param {function(object)} onKnown is told once who it is
   * @param {function(string, ...Node): Element} dialog opens a dialog
   */
  constructor(onKnown, dialog) {
    this.#onKnown = onKnown;
    this.#dialog = dialog;
  }

  /** Ask the server who it is, until it answers; a refusal opens the dialog by its event. */
  async load() {
    try {
      this.caller = await get(["caller"]);
    } catch (error) {
      if (error.status !== 401) setTimeout(() => this.load(), AGAIN);
      return;
    }
    this.#onKnown(this.caller);
    for (const tell of this.#waiting.splice(0)) tell(this.caller);
    const { userId, isOperator } = this.caller;
    this.element.hidden = !userId;
    const name = h("span", { class: "name", title: userId }, userId);
    fill(this.element, h("p", null, "Signed in as ", name, isOperator && ", operator"), token.get() && button("Sign out", signOut, { kind: "quiet-button" }));
  }

  /** Who it is, as soon as that is known. */
  known() {
    return this.caller ? Promise.resolve(this.caller) : new Promise((tell) => this.#waiting.push(tell));
  }

  /** Ask for a token, because the server has refused a request; `why` is its reason. */
  refused(why) {
    this.element.hidden = false;
    fill(this.element, h("p", null, "Not signed in"), button("Sign in", () => this.#ask(), { kind: "small primary" }));
    this.#ask(token.get() && why);
  }

  #ask(why) {
    if (this.#asking) return;
    this.#asking = true;
    const said = h("div", null, why && failure({ message: `The server no longer accepts your token. ${why}` }));
    const input = h("input", { type: "password", id: "token", required: true, autofocus: true, autocomplete: "off" });
    const use = async (event) => {
      event.preventDefault();
      const before = token.get();
      token.set(input.value.trim());
      try {
        await get(["caller"]);
      } catch (error) {
        token.set(before);
        fill(said, failure({ message: error.status === 401 ? `The token was refused. ${error.message}` : error.message }));
        input.select();
        return;
      }
      location.reload();
    };
    const actions = h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Sign in"));
    const form = h("form", { onsubmit: use }, said, h("div", { class: "field" }, h("label", { for: input.id }, "Bearer token"), input), h("p", { class: "hint" }, "The token is kept until you close this tab."), actions);
    this.#dialog("Sign in", form).addEventListener("close", () => (this.#asking = false));
  }
}

/** Forget the token, and what this tab keeps of its user's messages. */
function signOut() {
  sessionStorage.clear();
  location.hash = "#/";
  location.reload();
}
