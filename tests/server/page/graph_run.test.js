import assert from "node:assert/strict";
import { test } from "node:test";

import { graphsOf, nodeOf, nodeOfId, rootOf, statesOf } from "./graph_run.js";

const DEFAULT = "__DEFAULT__";

/** A layout of graphs: `{path: {nodes: {name: options}, edges: [[source, target, route]]}}`, as the server has it. */
function layout(graphs) {
  const nodes = [];
  const edges = [];
  for (const [path, { nodes: own, edges: ways }] of Object.entries(graphs)) {
    nodes.push({ path: `${path}/__START__`, kind: "start" });
    for (const [name, more] of Object.entries(own)) nodes.push({ path: `${path}/${name}`, kind: "function", ...more });
    nodes.push({ path: `${path}/__END__`, kind: "end" });
    for (const [source, target, route] of ways) edges.push({ source: `${path}/${source}`, target: `${path}/${target}`, route });
    const sources = new Set(ways.map(([source]) => source));
    for (const name of Object.keys(own)) if (!sources.has(name)) edges.push({ source: `${path}/${name}`, target: `${path}/__END__` });
  }
  return { nodes, edges };
}

const START = "__START__";
const gives = (path, more = {}) => ({ author: "wf", nodeInfo: { path, outputFor: [path, ...(more.also ?? [])] }, output: 1, actions: { route: more.route } });
const asks = (path, ...ids) => ({ author: "wf", nodeInfo: { path }, longRunningToolIds: ids });
const fails = (path) => ({ author: "wf", nodeInfo: { path }, errorCode: "ValueError", errorMessage: "busy" });
const answers = (id) => ({ author: "user", content: { parts: [{ functionResponse: { id, response: {} } }] } });

function run(drawn, events, status = "running") {
  const root = rootOf(drawn);
  const { nodes, taken } = statesOf(graphsOf(drawn), root, events, status);
  const short = [...nodes].filter(([path]) => !path.includes("__")).map(([path, state]) => [path.slice(root.length + 1), state]);
  const statuses = Object.fromEntries(short.map(([path, state]) => [path, state.status]));
  return { statuses, states: Object.fromEntries(short), taken: [...taken] };
}

const chain = layout({ wf: { nodes: { a: {}, b: {}, c: {} }, edges: [[START, "a"], ["a", "b"], ["b", "c"]] } });
const joined = layout({ wf: { nodes: { a: {}, x: {}, y: {}, j: { joins: true } }, edges: [[START, "a"], ["a", "x"], ["a", "y"], ["x", "j"], ["y", "j"]] } });
const routed = layout({ wf: { nodes: { r: {}, a: {}, b: {}, d: {} }, edges: [[START, "r"], ["r", "a", "A"], ["r", "b", ["B", true]], ["r", "d", DEFAULT]] } });

test("a node runs once the one before it has given its output", () => {
  assert.deepEqual(run(chain, []).statuses, { a: "running", b: "idle", c: "idle" });
  assert.deepEqual(run(chain, [gives("wf@1/a@1")]).statuses, { a: "done", b: "running", c: "idle" });
  assert.deepEqual(run(chain, [gives("wf@1/a@1")]).taken, [0, 1]);
});

test("a node without an event has ended once what is behind it has begun, or the run has ended", () => {
  assert.deepEqual(run(chain, [gives("wf@1/c@1")]).statuses, { a: "done", b: "done", c: "done" });
  assert.deepEqual(run(chain, [], "completed").statuses, { a: "done", b: "done", c: "done" });
  assert.deepEqual(run(joined, [gives("wf@1/a@1"), gives("wf@1/j@1")]).statuses, { a: "done", x: "done", y: "done", j: "done" });
});

test("a join runs once all have come to it", () => {
  const [a, x, y] = ["a", "x", "y"].map((name) => gives(`wf@1/${name}@1`));
  assert.deepEqual(run(joined, [a, y]).statuses, { a: "done", x: "running", y: "done", j: "idle" });
  assert.deepEqual(run(joined, [a, y, x]).statuses, { a: "done", x: "done", y: "done", j: "running" });
});

test("a route leads to its nodes, a list to several, another one to the default", () => {
  const status = (route) => run(routed, [gives("wf@1/r@1", { route })]).statuses;
  assert.deepEqual(status("A"), { r: "done", a: "running", b: "idle", d: "idle" });
  assert.deepEqual(status(["A", "B"]), { r: "done", a: "running", b: "running", d: "idle" });
  assert.deepEqual(status("zzz"), { r: "done", a: "idle", b: "idle", d: "running" });
  assert.deepEqual(status(undefined), { r: "done", a: "idle", b: "idle", d: "running" });
  assert.deepEqual(status(1), { r: "done", a: "idle", b: "running", d: "idle" }); // as in Python
});

test("false and 0 are routes, and an empty text is none", () => {
  const drawn = layout({ wf: { nodes: { r: {}, n: {}, d: {} }, edges: [[START, "r"], ["r", "n", false], ["r", "d", DEFAULT]] } });
  const status = (route) => run(drawn, [gives("wf@1/r@1", { route })]).statuses;
  assert.equal(status(false).n, "running");
  assert.equal(status(0).n, "running");
  assert.equal(status("").d, "running");
});

test("a route that no edge has, and a join that nothing comes to, are said", () => {
  const drawn = layout({ wf: { nodes: { r: {}, a: {}, b: {}, j: { joins: true } }, edges: [[START, "r"], ["r", "a", "A"], ["r", "b", "B"], ["a", "j"], ["b", "j"]] } });
  const { states } = run(drawn, [gives("wf@1/r@1", { route: "zzz" })], "completed");
  assert.equal(states.r.note, 'No edge has its route "zzz".');
  assert.deepEqual(["a", "j"].map((name) => states[name].status), ["idle", "idle"]);
  const half = run(drawn, [gives("wf@1/r@1", { route: "A" }), gives("wf@1/a@1")], "completed");
  assert.equal(half.states.j.note, "Never ran: b did not lead here.");
  assert.equal(half.states.j.status, "idle");
});

test("a loop counts the runs of its nodes", () => {
  const drawn = layout({ wf: { nodes: { inc: {}, done: {} }, edges: [[START, "inc"], ["inc", "inc", "again"], ["inc", "done", "done"]] } });
  const events = [1, 2, 3].map((number) => gives(`wf@1/inc@${number}`, { route: number < 3 ? "again" : "done" }));
  const { states } = run(drawn, events);
  assert.deepEqual([states.inc.runs, states.inc.status, states.done.status], [3, "done", "running"]);
  assert.equal(run(drawn, events.slice(0, 1)).states.inc.status, "running");
});

test("a node waits for a person until the answer is there, and the others go on", () => {
  const events = [gives("wf@1/a@1"), asks("wf@1/x@1", "q")];
  assert.deepEqual(run(joined, events).statuses, { a: "done", x: "waiting", y: "running", j: "idle" });
  assert.deepEqual(run(joined, events, "paused").statuses, { a: "done", x: "waiting", y: "done", j: "idle" });
  assert.deepEqual(run(joined, events).states.x.asks, ["q"]);
  assert.equal(run(joined, [...events, answers("q")]).statuses.x, "running");
  assert.equal(run(joined, [...events, answers("q"), gives("wf@1/x@1")]).statuses.x, "done");
});

test("a failed attempt is counted, and fails the node if the run fails", () => {
  const events = [gives("wf@1/a@1"), fails("wf@1/x@1")];
  const { states } = run(joined, events);
  assert.deepEqual([states.x.status, states.x.failures, states.x.error.type], ["running", 1, "ValueError"]);
  assert.deepEqual(run(joined, [...events, gives("wf@1/x@1")]).states.x.error, null);
  const failed = run(joined, events, "failed");
  assert.deepEqual(failed.statuses, { a: "done", x: "failed", y: "cancelled", j: "idle" });
  assert.deepEqual(run(joined, events, "cancelled").statuses.x, "cancelled");
});

const nested = layout({
  wf: { nodes: { a: {}, inner: { kind: "workflow" }, z: {} }, edges: [[START, "a"], ["a", "inner", "in"], ["inner", "z"], ["z", "inner", "again"]] },
  "wf/inner": { nodes: { b: {}, c: {} }, edges: [[START, "b"], ["b", "c"]] },
});

test("the nodes of a graph in the graph have statuses of their own, anew in each run of it", () => {
  const first = [gives("wf@1/a@1", { route: "in" }), gives("wf@1/inner@1/b@1")];
  assert.deepEqual(run(nested, first).statuses, { a: "done", inner: "running", z: "idle", "inner/b": "done", "inner/c": "running" });
  const second = [...first, gives("wf@1/inner@1/c@1", { also: ["wf@1/inner@1"] })];
  assert.deepEqual(run(nested, second).statuses, { a: "done", inner: "done", z: "running", "inner/b": "done", "inner/c": "done" });
  const { statuses, states } = run(nested, [...second, gives("wf@1/z@1", { route: "again" }), gives("wf@1/inner@2/b@1")]);
  assert.deepEqual([statuses.inner, statuses["inner/b"], statuses["inner/c"], states.inner.runs], ["running", "done", "running", 2]);
});

test("a graph waits for a person if a node of it does", () => {
  const events = [gives("wf@1/a@1", { route: "in" }), asks("wf@1/inner@1/b@1", "q")];
  assert.equal(run(nested, events).statuses.inner, "waiting");
  assert.equal(run(nested, events).statuses["inner/b"], "waiting");
});

test("a limit of nodes at once has the others wait", () => {
  const drawn = layout({ wf: { nodes: { g: { kind: "workflow", window: 1 } }, edges: [[START, "g"]] }, "wf/g": { nodes: { x: {}, y: {} }, edges: [[START, "x"], [START, "y"]] } });
  assert.deepEqual(run(drawn, []).statuses, { g: "running", "g/x": "running", "g/y": "due" });
  assert.deepEqual(run(drawn, [gives("wf@1/g@1/x@1")]).statuses, { g: "running", "g/x": "done", "g/y": "running" });
});

test("a worker says how many items have their output", () => {
  const events = [gives("wf@1/a@1/a@1"), gives("wf@1/a@1/a@2")];
  assert.deepEqual([run(chain, events).states.a.items, run(chain, events).statuses.a], [2, "running"]);
});

test("events of another graph change nothing", () => {
  assert.deepEqual(run(chain, [gives("wf@1/gone@1"), gives("other@1/a@1")]).statuses, run(chain, []).statuses);
  assert.equal(run(chain, [gives("wf@1/a@7")]).statuses.a, "done");
});

test("an attempt belongs to the node in its event's id", () => {
  assert.equal(nodeOf("wf@1/inner@2/b@1"), "wf/inner/b");
  assert.equal(nodeOfId("e-1.2.inner@1.3.b@2~2.1", "wf"), "wf/inner/b");
  assert.equal(nodeOfId("e-1.2", "wf"), "");
});
