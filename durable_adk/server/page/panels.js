// What a session has beside its timeline: the state over time, and its artifacts.

import { get, sessionPath } from "./api.js";
import { artifactsOf, stateHistory } from "./conversation.js";
import { failure, fill, h } from "./dom.js";
import { brief, clock, count, exact, pretty } from "./format.js";
import { mediaOf } from "./media.js";

/** The state: each key with its value, and which event changed it. `go(seq)` shows an event; `open` names the keys that are open. */
export function statePanel(events, initial, { go, open }) {
  const changed = stateHistory(events);
  const known = new Set(changed.map((each) => each.key));
  const given = Object.entries(initial ?? {})
    .filter(([key]) => !known.has(key))
    .map(([key, value]) => ({ key, value, changes: [] }));
  const all = [...changed, ...given].filter((each) => !each.key.startsWith("__"));
  if (!all.length) {
    return empty("No state yet.", "A key appears here when a tool, a callback or an agent's output_key sets it.");
  }
  return h("ul", { class: "state" }, all.map((each) => stateKey(each, go, open.includes(each.key))));
}

function stateKey({ key, value, changes }, go, open) {
  const removed = value === null;
  const head = h(
    "summary",
    null,
    h("span", { class: "mono name" }, key),
    h("span", { class: "value mono" }, removed ? "removed" : brief(value, 120)),
    h("span", { class: "facts" }, changes.length ? count(changes.length, "change") : "from the start"),
  );
  const rows = changes.map((change) =>
    h(
      "li",
      null,
      h("button", { type: "button", class: "link", onclick: () => go(change.seq), title: exact(change.time) }, `#${change.seq}`),
      h("span", { class: "quiet" }, `${change.author}, ${clock(change.time)}`),
      h("pre", { class: "code" }, h("code", null, change.value === null ? "removed" : pretty(change.value))),
    ),
  );
  return h("li", null, h("details", { open, "data-name": key }, head, changes.length ? h("ol", { class: "history" }, rows) : h("pre", { class: "code" }, h("code", null, pretty(value)))));
}

/** The artifacts, by name and version; the one that is chosen is shown below. */
export function artifactsPanel(key, events, chosen, choose) {
  const all = artifactsOf(events);
  if (!all.length) return empty("No artifacts yet.", "What a tool saves with save_artifact appears here.");
  const at = all.find((each) => each.name === chosen.name) ?? all.at(-1);
  const version = chosen.name === at.name && chosen.version !== null ? chosen.version : at.versions.at(-1).version;
  const list = h(
    "ul",
    { class: "artifacts" },
    all.map((each) =>
      h(
        "li",
        null,
        h("button", { type: "button", class: "chip", "aria-pressed": String(each === at), onclick: () => choose(each.name, null) }, each.name),
      ),
    ),
  );
  const versions =
    at.versions.length > 1 &&
    h(
      "p",
      { class: "versions" },
      at.versions.map((each) => h("button", { type: "button", class: "link", "aria-pressed": String(each.version === version), onclick: () => choose(at.name, each.version) }, `version ${each.version}`)),
    );
  const place = h("div", { class: "artifact-view", "aria-busy": "true" }, h("p", { class: "quiet" }, "Loading…"));
  show(place, key, at.name, version);
  return h("div", null, h("h2", { class: "sr" }, at.name), list, versions, place);
}

async function show(place, key, name, version) {
  try {
    const part = await get(sessionPath(key, "artifacts", name, "versions", String(version)));
    const text = typeof part.text === "string" && { mimeType: "text/plain", data: btoa(String.fromCharCode(...new TextEncoder().encode(part.text))) };
    fill(place, mediaOf(part.inlineData ?? text, name));
  } catch (error) {
    fill(place, failure(error, () => show(place, key, name, version)));
  }
  place.removeAttribute("aria-busy");
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), more);
}
