// What a person chose, kept in this browser: theme, app and user, prices of tokens.

import { parse } from "./json.js";

function read(storage, name, otherwise) {
  try {
    return parse(globalThis[storage].getItem(`durable-adk.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(storage, name, value) {
  try {
    if (value === null) globalThis[storage].removeItem(`durable-adk.${name}`);
    else globalThis[storage].setItem(`durable-adk.${name}`, JSON.stringify(value));
  } catch {
    // not kept, then
  }
}

const kept = (name, otherwise, storage = "localStorage") => ({ get: () => read(storage, name, otherwise), set: (value) => write(storage, name, value) });

/** Dollars per million tokens: `{model: [prompt, answer]}`; `*` stands for all others. */
export const prices = kept("prices", {});

/** Read prices, a model a line; `wrong` are the lines that cannot be read, as `[number, text]`. */
export function readPrices(text) {
  const found = {};
  const wrong = [];
  for (const [index, line] of text.split("\n").entries()) {
    const [model, ...rest] = line.trim().split(/\s+/);
    const numbers = rest.map(Number);
    if (numbers.length === 2 && numbers.every((each) => each >= 0 && each < Infinity)) found[model] = numbers;
    else if (model) wrong.push([index + 1, line.trim()]);
  }
  return { prices: found, wrong };
}

export const place = kept("place", { app: "", user: "" });
export const theme = kept("theme", "");
/** The messages that wait for a session, `{invocation id: text}`; kept until the tab is closed. */
export const queuedIn = ({ appName, userId, sessionId }) => kept(`queued.${JSON.stringify([appName, userId, sessionId])}`, {}, "sessionStorage");
/** What was written and is not sent yet, null: nothing; `names` say where. Kept until the tab is closed. */
export const draftOf = (...names) => kept(`draft.${JSON.stringify(names)}`, null, "sessionStorage");
/** Where a new session was to begin, for whose message there is a draft. Kept until the tab is closed. */
export const newPlace = kept("new", { app: "", user: "" }, "sessionStorage");
/** The message that was sent and that no server has accepted yet, null: none. Kept until the tab is closed. */
export const underWayOf = (...names) => kept(`sending.${JSON.stringify(names)}`, null, "sessionStorage");

/** Have the page look as chosen; without a choice, as the system does. */
export function applyTheme() {
  const chosen = theme.get();
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

export function isDark() {
  const chosen = theme.get();
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
