// What was asked of a model, in the details of its answer. It is loaded once it is opened.

import { argumentList } from "./answer.js";
import { getInvocation } from "./api.js";
import { failure, fill, h } from "./dom.js";
import { count, pretty } from "./format.js";

const known = new WeakMap(); // event -> {open, request}: an entry may be drawn again

/** The element that opens to the request of the model call that made an event of a session. */
export function requestOf(event, key) {
  const state = known.get(event) ?? { open: false, request: null };
  known.set(event, state);
  const place = h("div", { class: "asked" });
  const ontoggle = () => {
    state.open = element.open;
    if (element.open && !place.hasChildNodes()) show(place, event, key, state);
  };
  const summary = h("summary", null, "What the model was asked");
  const element = h("details", { class: "raw", open: state.open, ontoggle }, summary, place);
  return element;
}

async function show(place, event, key, state) {
  fill(place, h("p", { class: "quiet" }, "Loading…"));
  try {
    state.request ??= await getInvocation(key, event.invocationId, "requests", event.id);
    fill(place, shown(state.request));
  } catch (error) {
    if (error.status === 403) fill(place, h("p", { class: "quiet" }, error.message)); // not an operator
    else fill(place, failure(error, () => show(place, event, key, state)));
  }
}

function shown({ model, systemInstruction, contents = [], tools = [], config = {}, differences = [] }) {
  const declared = tools.flatMap(declarations);
  return [
    h("p", { class: "quiet" }, `Rebuilt with the agent’s current code.${differences.length ? " The model may have received something different:" : ""}`),
    differences.length > 0 && h("ul", { class: "quiet" }, differences.map((each) => h("li", null, each))),
    systemInstruction && part("System instruction", text(systemInstruction)),
    part(count(contents.length, "message"), contents.map(message)),
    declared.length > 0 && part(count(declared.length, "tool"), declared.map(tool)),
    part("Configuration", argumentList({ model, ...config })),
  ];
}

function part(title, ...content) {
  return h("details", { class: "raw" }, h("summary", null, title), h("div", { class: "asked" }, content));
}

/** As it is: what a model gets is no Markdown to it. */
function text(value) {
  return h("pre", { class: "code", tabindex: 0 }, h("code", null, value));
}

function message({ role, parts = [] }) {
  return [h("p", { class: "by" }, h("span", { class: "author" }, role)), parts.map(said)];
}

function said(each) {
  if (each.text !== undefined) return [each.thought && h("p", { class: "quiet" }, "Thought"), text(each.text)];
  const { functionCall: call, functionResponse: response, inlineData: file } = each;
  if (call) return [h("p", { class: "quiet" }, "calls ", h("span", { class: "mono" }, call.name)), text(pretty(call.args ?? {}))];
  if (response) return [h("p", { class: "quiet" }, h("span", { class: "mono" }, response.name), " returned"), text(pretty(response.response ?? {}))];
  if (file) return h("p", { class: "quiet" }, `File: ${file.displayName ?? file.mimeType}`);
  return text(pretty(each));
}

/** The functions of a tool; of another tool only its kind is known. */
function declarations({ functionDeclarations, ...kinds }) {
  return [...(functionDeclarations ?? []), ...Object.keys(kinds).map((name) => ({ name }))];
}

function tool({ name, description, parameters, parametersJsonSchema }) {
  const schema = parametersJsonSchema ?? parameters;
  return [
    h("p", { class: "by" }, h("span", { class: "author mono" }, name)),
    description && text(description),
    schema && text(pretty(schema)),
  ];
}
