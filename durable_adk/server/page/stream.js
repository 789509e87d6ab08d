// Follows a stream of the server for as long as somebody looks, through any number of connections.

import { address, headersWith, refusal } from "./api.js";
import { parse } from "./json.js";
import { SseParser } from "./sse.js";

/** Milliseconds to wait for the next connection if the server names no others, and at most. */
const RETRY = 300;
const MOST = 10000;
/** Milliseconds without a byte after which a connection counts as dead; pings come every 15 s. */
const SILENCE = 45000;
/** Milliseconds that a page is hidden before it gives back its connection: a browser has few. */
const AWAY = 5000;

/**
 * Nobody looks while the page is hidden: it goes on where it was once the page is shown.
 *
 * @param {string[]} segments path of the stream
 * @param {function(object, string)} onItem takes each item's JSON and the kind of its event
 * @param {function(object)} onState takes `{state: connecting|live|waiting|absent|refused, ...}`; what is
 *     absent may come, and is asked for again
 * @param {function()} onPing is told of the comments that the server sends when it has nothing to say
 * @param {boolean} whileHidden whether it goes on while the page is hidden
 */
export class Stream {
  #segments;
  #query;
  #onItem;
  #onState;
  #onPing;
  #parser = new SseParser();
  #abort = null;
  #stopped = false;
  #wake = null;
  #failures = 0; // connections since the last item or ping
  #refused = false; // the last stream ended with an error, and nothing came since
  #was = "";
  #whileHidden;
  #away = null; // timer

  constructor(segments, { query = {}, onItem, onState, onPing, whileHidden = false }) {
    this.#segments = segments;
    this.#query = query;
    this.#onItem = onItem;
    this.#onState = onState;
    this.#onPing = onPing;
    this.#whileHidden = whileHidden;
  }

  async run() {
    document.addEventListener("visibilitychange", this.#turned);
    while (!this.#stopped) {
      await this.#shown();
      if (this.#stopped) return;
      this.#say("connecting", {});
      let why = "";
      let absent = null;
      try {
        await this.#connection();
      } catch (error) {
        if (this.#stopped) return;
        if (error.status === 404) absent = error;
        if ([400, 401, 403, 422].includes(error.status)) {
          this.#say("refused", { error });
          return;
        }
        why = error.status || error.name === "Error" ? error.message : "";
      }
      if (this.#stopped) return;
      if (this.#isHidden()) continue;
      await this.#pause(why, absent);
    }
  }

  stop() {
    this.#stopped = true;
    document.removeEventListener("visibilitychange", this.#turned);
    clearTimeout(this.#away);
    this.#abort?.abort();
    this.#wake?.();
  }

  /** Connect now instead of after the wait. */
  hurry() {
    this.#wake?.();
  }

  #isHidden() {
    return document.hidden && !this.#whileHidden;
  }

  /** The page was hidden or shown. */
  #turned = () => {
    clearTimeout(this.#away);
    if (this.#isHidden()) this.#away = setTimeout(() => this.#abort?.abort(), AWAY);
    else this.#wake?.();
  };

  async #shown() {
    while (this.#isHidden() && !this.#stopped) await new Promise((resolve) => (this.#wake = resolve));
  }

  async #connection() {
    this.#abort = new AbortController();
    const headers = headersWith({ accept: "text/event-stream" });
    if (this.#parser.lastEventId) headers["last-event-id"] = this.#parser.lastEventId;
    this.#parser.reset();
    let timer = setTimeout(() => this.#abort.abort(), SILENCE);
    try {
      const options = { headers, signal: this.#abort.signal, cache: "no-store" };
      const response = await fetch(address(this.#segments, this.#query), options);
      if (!response.ok) throw await refusal(response);
      if (!this.#refused) this.#say("live", {});
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => this.#abort.abort(), SILENCE);
        const before = this.#parser.comments;
        const found = this.#parser.push(value);
        if (this.#parser.comments > before) {
          this.#works();
          this.#onPing?.();
        }
        for (const { data, event } of found) this.#take(data, event);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #take(data, event) {
    let item;
    try {
      item = parse(data);
    } catch {
      console.error("The server sent an item that is not valid JSON.", data);
      return;
    }
    if (event === "error") {
      this.#refused = true;
      throw new Error(item.error?.message ?? "The server cannot continue.");
    }
    this.#works();
    this.#onItem(item, event);
  }

  /** That a stream begins says little: it may end at once, each time. */
  #works() {
    this.#failures = 0;
    this.#refused = false;
    if (this.#was !== "live") this.#say("live", {});
  }

  /** Wait as long as the server wants; longer after each failure, and not all pages alike. */
  #pause(why, absent) {
    const retry = this.#parser.retry ?? RETRY;
    const longer = Math.max(retry, RETRY) * 1.5 ** this.#failures * (0.75 + Math.random() / 2);
    const least = this.#failures ? Math.min(longer, Math.max(retry, MOST)) : retry;
    this.#failures += 1;
    this.#say(absent ? "absent" : "waiting", { until: Date.now() + least, failures: this.#failures, why, error: absent });
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, least);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #say(state, more) {
    if (state === "connecting" && ["waiting", "absent"].includes(this.#was)) return; // still the same gap
    this.#was = state;
    this.#onState({ state, ...more });
  }
}
