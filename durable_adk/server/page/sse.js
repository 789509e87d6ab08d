// Reads Server-Sent Events from text that arrives in pieces of any size. Knows no network.

export class SseParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;
  #started = false;

  /** Milliseconds that the server asks to wait before the next connection; null: never said. */
  retry = null;
  /** Id of the last complete event; what to send as `Last-Event-ID`. */
  lastEventId = "";
  /** Number of comments so far; servers send them as pings. */
  comments = 0;

  /** Take a piece of text; return the events that it completes, as `{id, event, data}`. */
  push(text) {
    let all = this.#rest + text;
    if (!this.#started && all) {
      this.#started = true;
      if (all.charCodeAt(0) === 0xfeff) all = all.slice(1);
    }
    const found = [];
    let from = 0;
    for (;;) {
      const end = lineEnd(all, from);
      if (end === null) break;
      this.#line(all.slice(from, end.at), found);
      from = end.next;
    }
    this.#rest = all.slice(from);
    return found;
  }

  /** Forget what was begun: an event that was cut off comes again whole. */
  reset() {
    this.#rest = "";
    this.#data = [];
    this.#event = "";
    this.#id = null;
    this.#started = false;
  }

  #line(line, found) {
    if (line === "") return this.#dispatch(found);
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.comments += 1;
      return undefined;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  #dispatch(found) {
    if (this.#id !== null) this.lastEventId = this.#id;
    if (this.#data.length) {
      found.push({
        id: this.lastEventId,
        event: this.#event || "message",
        data: this.#data.join("\n"),
      });
    }
    this.#data = [];
    this.#event = "";
    this.#id = null;
  }
}

/** The next end of a line: LF, CRLF or CR. A CR at the very end may be half of a CRLF. */
function lineEnd(text, from) {
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (char === "\n") return { at, next: at + 1 };
    if (char === "\r") {
      if (at + 1 === text.length) return null;
      return { at, next: text[at + 1] === "\n" ? at + 2 : at + 1 };
    }
  }
  return null;
}
