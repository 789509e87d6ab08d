import assert from "node:assert/strict";
import { test } from "node:test";
import { serialize } from "node:v8";

import { artifactsOf, Conversation, questionOf, stateHistory, sumOf, usageOf } from "./conversation.js";

const text = (words, more = {}) => ({ role: "model", parts: [{ text: words, ...more }] });
const event = (seq, id, content, more = {}) => ({ type: "event", seq, event: { id, invocationId: "i", author: "agent", timestamp: seq, content, actions: {}, ...more } });
const chunk = (position, words, { attempt = 1, id = "e2" } = {}) => ({ type: "partial", invocationId: "i", eventId: id, attempt, position, event: { author: "agent", content: text(words) } });
const call = (id, name, args = {}) => ({ role: "model", parts: [{ functionCall: { id, name, args } }] });
const response = (id, name, value) => ({ role: "user", parts: [{ functionResponse: { id, name, response: value } }] });
const user = event(1, "e1", { role: "user", parts: [{ text: "Hi" }] }, { author: "user" });

function entries(items, attempts = []) {
  const conversation = new Conversation();
  for (const item of items) conversation.add(item);
  conversation.setAttempts("i", attempts);
  return conversation.runs()[0].entries;
}

test("an event is there once, however often and in whatever order it comes", () => {
  const items = [user, event(2, "e2", text("one")), event(3, "e3", text("two"))];
  const expected = entries(items).map((each) => each.key);
  assert.deepEqual(expected, ["1", "2", "3"]);
  for (const order of [[0, 1, 2], [2, 1, 0], [1, 2, 0, 1, 2]]) {
    assert.deepEqual(entries(order.map((at) => items[at])).map((each) => each.key), expected);
  }
});

test("chunks become one text, in which none is twice", () => {
  const [, partial] = entries([user, chunk(0, "Good "), chunk(0, "Good "), chunk(1, "day"), chunk(0, "Good ")]);
  assert.equal(partial.text, "Good day");
  assert.equal(partial.missing, false);
});

test("merged chunks replace those of them that came before", () => {
  const merged = (position, chunks, content) => ({ ...chunk(position, ""), chunks, event: { author: "agent", content } });
  const items = [user, merged(1, 2, text("Hm. So. ", { thought: true })), chunk(2, "Good "), chunk(3, "day"), chunk(4, "!")];
  const again = [merged(1, 2, text("Hm. So. ", { thought: true })), merged(5, 4, text("Good day! Bye")), chunk(6, ".")];
  for (const sent of [[...items, ...again], [user, ...again], [...items.slice(0, 3), ...again]]) {
    const [, partial] = entries(sent);
    assert.deepEqual([partial.thought, partial.text, partial.missing], ["Hm. So. ", "Good day! Bye.", false]);
  }
  assert.equal(entries([user, merged(5, 4, text("day"))])[1].missing, true);
});

test("an answer under way keeps its text once, however many chunks it has", () => {
  const [, partial] = entries([user, ...Array.from({ length: 500 }, (_, at) => chunk(at, "twenty characters...")), chunk(500, "!")]);
  assert.ok(serialize(partial).length < 5 * partial.text.length);
});

test("a chunk that is missing is noticed", () => {
  const [, partial] = entries([user, chunk(0, "a"), chunk(2, "c")]);
  assert.equal(partial.missing, true);
});

test("a later attempt begins the text anew, and the earlier one says nothing more", () => {
  const [, partial] = entries([user, chunk(0, "Wrong"), chunk(0, "Right", { attempt: 2 }), chunk(1, " no")]);
  assert.equal(partial.text, "Right");
  assert.equal(partial.attempt, 2);
});

test("the committed event takes the place of its chunks, also of those that come late", () => {
  const found = entries([user, chunk(0, "Go"), event(2, "e2", text("Good day")), chunk(1, "od")]);
  assert.deepEqual(found.map((each) => [each.kind, each.key]), [["message", "1"], ["message", "2"]]);
});

test("a run that is closed has no answer under way", () => {
  const found = entries([user, chunk(0, "Go"), { type: "status", invocationId: "i", status: "cancelled" }]);
  assert.deepEqual(found.map((each) => each.kind), ["message"]);
});

test("a call and its response are one entry", () => {
  const running = entries([user, event(2, "e2", call("c", "look", { at: 1 }))]);
  assert.equal(running[1].state, "running");
  const done = entries([user, event(2, "e2", call("c", "look")), event(3, "e3", response("c", "look", { result: 4 }))]);
  assert.deepEqual([done.length, done[1].state, done[1].responses[0].seq], [2, "done", 3]);
  const failed = entries([user, event(2, "e2", call("c", "look")), event(3, "e3", response("c", "look", { error: "no" }))]);
  assert.equal(failed[1].state, "failed");
});

test("a long-running call waits until somebody answers", () => {
  const asked = event(2, "e2", call("c", "ask"), { longRunningToolIds: ["c"] });
  const preliminary = event(3, "e3", response("c", "ask", { status: "pending" }));
  const answered = event(4, "e4", response("c", "ask", { result: "yes" }), { author: "user" });
  const decided = event(4, "e4", response("c", "ask", { result: "late" }), { customMetadata: { adk_settled: ["c"] } });
  assert.equal(entries([user, asked, preliminary])[1].state, "waiting");
  assert.equal(entries([user, asked, preliminary, answered])[1].state, "done");
  assert.equal(entries([user, asked, preliminary, decided])[1].state, "done");
});

test("a call that waits for a confirmation waits, and then says what was decided", () => {
  const called = event(2, "e2", call("c", "pay"));
  const asks = event(3, "e3", call("r", "adk_request_confirmation", { originalFunctionCall: { id: "c", name: "pay" }, toolConfirmation: { hint: "Much" } }), { longRunningToolIds: ["r"] });
  const holds = event(4, "e4", response("c", "pay", { error: "requires confirmation" }));
  const [, paid, request] = entries([user, called, holds, asks]);
  assert.deepEqual([paid.state, request.state, request.hint], ["waiting", "waiting", "Much"]);
  for (const [confirmed, state] of [[true, "approved"], [false, "rejected"]]) {
    for (const answer of [{ confirmed }, { response: JSON.stringify({ confirmed }) }]) {
      const said = event(5, "e5", response("r", "adk_request_confirmation", answer), { author: "user" });
      assert.equal(entries([user, called, holds, asks, said])[2].state, state);
    }
  }
});

test("a call runs since it was approved, and what it waited is not counted", () => {
  const asks = event(3, "e3", call("r", "adk_request_confirmation", { originalFunctionCall: { id: "c", name: "pay" } }), { longRunningToolIds: ["r"] });
  const items = [user, event(2, "e2", call("c", "pay")), event(4, "e4", response("c", "pay", { error: "requires confirmation" })), asks];
  const approved = [...items, event(50, "e5", response("r", "adk_request_confirmation", { confirmed: true }), { author: "user" })];
  const paid = [...approved, event(52, "e6", response("c", "pay", { result: "paid" }))];
  const seen = [items, approved, paid].map((all) => entries(all)[1]);
  assert.deepEqual(seen.map(({ state, since }) => [state, since]), [["waiting", undefined], ["running", 50], ["done", 50]]);
});

test("an attempt without a result stands before the event that came of it", () => {
  const attempts = [{ eventId: "e2", attempt: 1, outcome: "lost" }, { eventId: "e2", attempt: 2, outcome: "completed" }, { eventId: "e9", attempt: 1, outcome: "failed" }];
  const found = entries([user, event(2, "e2", text("Hi"))], attempts);
  assert.deepEqual(found.map((each) => each.key), ["1", "e2.attempt.1", "2", "e9.attempt.1"]);
});

test("a tool's attempts without a result stand behind their call, of parallel calls behind each its own", () => {
  const call = (id) => ({ functionCall: { id, name: "book", args: {} } });
  const response = (id) => ({ functionResponse: { id, name: "book", response: { ok: true } } });
  const items = [user, event(2, "e2", { parts: [call("c1"), call("c2")] }), event(3, "e3", { parts: [response("c1"), response("c2")] })];
  const failed = (callId, attempt) => ({ eventId: "e3", callId, attempt, tool: "book", outcome: "failed", startTime: 9, worker: "7@host" });
  const found = entries(items, [failed("c1", 2), failed("c2", 1), failed("c1", 1), failed("c9", 1)]);
  const [first, second] = found.filter((each) => each.kind === "call").map((each) => each.key);
  assert.deepEqual(found.map((each) => each.key), ["1", first, "e3.c1.attempt.1", "e3.c1.attempt.2", second, "e3.c2.attempt.1", "e3.c9.attempt.1"]);
});

test("an attempt without an event stands before what came after it", () => {
  const items = [user, event(2, "e2", text("one")), event(5, "i.end", undefined, { errorCode: "X", errorMessage: "bad" })];
  const found = entries(items, [{ eventId: "e3", attempt: 1, outcome: "failed", startTime: 3 }, { eventId: "e4", attempt: 1, outcome: "lost" }]);
  assert.deepEqual(found.map((each) => each.key), ["1", "2", "e3.attempt.1", "e4.attempt.1", "5.error"]);
});

test("a failure is told once: where it happened, else where the run ended, else of the run", () => {
  const error = { type: "ValueError", message: "bad key" };
  const end = event(9, "i.end", undefined, { errorCode: error.type, errorMessage: error.message });
  const attempt = { eventId: "e2", attempt: 1, outcome: "failed", error, startTime: 2 };
  const called = [event(2, "e2", call("c", "look")), event(3, "e3", response("c", "look", { error: "look raised ValueError: bad key" }))];
  const told = (items, attempts = []) => {
    const conversation = new Conversation();
    for (const item of [user, ...items, { type: "status", invocationId: "i", status: "failed", error }]) conversation.add(item);
    conversation.setAttempts("i", attempts);
    const [run] = conversation.runs();
    return [run.entries.filter((each) => each.kind === "error" && !each.repeats).length, run.error];
  };
  assert.deepEqual(told([end], [attempt]), [0, null]);
  assert.deepEqual(told([...called, end]), [0, null]);
  assert.deepEqual(told([end]), [1, null]);
  assert.deepEqual(told([]), [0, error]);
  assert.deepEqual(told([end], [{ ...attempt, error: { type: "ValueError", message: "another" } }]), [1, null]);
});

test("the first entry of a model's answer says which model it was", () => {
  const calls = { role: "model", parts: [call("c", "look").parts[0], call("d", "look").parts[0]] };
  const asks = event(3, "e3", call("r", "adk_request_confirmation"), { longRunningToolIds: ["r"] });
  const found = entries([user, event(2, "e2", calls), asks, event(4, "e4", undefined, { errorCode: "SAFETY", modelVersion: "m" })]);
  assert.deepEqual(found.map((each) => [each.kind, each.answers]), [["message", false], ["call", true], ["call", false], ["request", false], ["error", true]]);
});

test("a model was asked after what it answers was stored, as far as commits tell", () => {
  const asked = (items, attempts = []) => entries(items, attempts).map((each) => each.asked ?? null);
  const answered = [user, event(2, "e2", call("c", "look")), event(7, "e3", response("c", "look", {})), event(9, "e4", text("So."), { finishReason: "STOP" })];
  assert.deepEqual(asked(answered), [null, 1, 7]);
  // Another answer to the same request: no commit tells when the model began with it.
  assert.deepEqual(asked([...answered, event(10, "e5", text("And."), { finishReason: "STOP" })]), [null, 1, 7, null]);
  // A message that was sent in the meantime is stored late.
  assert.deepEqual(asked([...answered.slice(0, 3), event(8, "s", { parts: [{ text: "Wait" }] }, { author: "user", timestamp: 3 }), answered[3]])[3], 7);
  // Parallel branches do not wait for each other; what comes after them waits for both.
  const of = (seq, author, branch) => event(seq, `b${seq}`, text(author), { author, branch, finishReason: "STOP" });
  const parallel = [user, of(3, "a", "p.a"), of(5, "b", "p.b"), of(8, "c")];
  assert.deepEqual(asked(parallel), [null, 1, 1, 5]);
  assert.deepEqual(asked([user, of(3, "a", "p.a"), of(4, "d", "p.ab")]), [null, 1, 1]);
});

test("where the agents of a ParallelAgent begin is said once, also amid an answer", () => {
  const of = (seq, branch) => event(seq, `b${seq}`, text("x"), { branch });
  const partial = chunk(0, "So", { id: "b9" });
  partial.event.branch = "p.a.q.d";
  const items = [user, of(2, "p.a"), of(3, "p.b"), of(4, "p.a.q.c"), partial];
  const attempts = [{ eventId: "b2", attempt: 1, outcome: "failed" }];
  assert.deepEqual(entries(items, attempts).map((each) => each.enters.join(" ")), ["", "p", "", "", "p a q", ""]);
  assert.deepEqual(entries([user, of(2, "p.a"), event(3, "e3", text("x")), partial]).map((each) => each.enters.join(" ")), ["", "p", "", "p a q"]);
  assert.deepEqual(entries([user, of(2, "p.q.q.a")])[1].enters, ["p", "q"]); // the child is a ParallelAgent itself
});

test("a run that waited for its turn asked no model before it", () => {
  const conversation = new Conversation();
  const other = (seq, more) => event(seq, `o${seq}`, text("x"), { invocationId: "other", ...more });
  for (const item of [other(1), other(2, { timestamp: 60 }), event(3, "e3", text("Hi"), { author: "user" }), event(4, "e4", text("Hi"), { timestamp: 61 })]) conversation.add(item);
  assert.deepEqual(conversation.runs()[1].entries.map((each) => each.asked), [null, 60]);
});

test("a time says how many attempts before are part of it", () => {
  const items = [user, event(2, "e2", call("c", "look")), event(3, "e3", response("c", "look", {}))];
  const failed = (more) => ({ attempt: 1, outcome: "failed", startTime: 1, ...more });
  const found = entries(items, [failed({ eventId: "e2" }), failed({ eventId: "e3", callId: "c" }), failed({ eventId: "e3", callId: "c", attempt: 2 })]);
  const called = found.find((each) => each.kind === "call");
  assert.deepEqual([called.failedModelAttempts, called.failedToolAttempts], [1, 2]);
});

test("in a run that is closed, no call runs or waits any more", () => {
  const status = { type: "status", invocationId: "i", status: "cancelled" };
  const asked = event(3, "e3", call("d", "ask"), { longRunningToolIds: ["d"] });
  const items = [user, event(2, "e2", call("c", "look")), asked];
  assert.deepEqual(entries(items).slice(1).map((each) => each.state), ["running", "waiting"]);
  assert.deepEqual(entries([...items, status]).slice(1).map((each) => each.state), ["stopped", "stopped"]);
  const conversation = new Conversation();
  for (const item of items) conversation.add(item);
  conversation.runs();
  conversation.add(status);
  assert.equal(conversation.runs()[0].entries[1].state, "stopped");
});

test("the server is asked about what it told a status of", () => {
  const conversation = new Conversation();
  conversation.add({ type: "status", invocationId: "i", status: "running" });
  conversation.add(user);
  conversation.add(event(2, "e2", undefined, { invocationId: "p-1", author: "user", actions: { stateDelta: { name: "Ann" } } }));
  conversation.add(event(3, "e3", undefined, { invocationId: "d", actions: { rewindBeforeInvocationId: "i" } }));
  assert.deepEqual(["i", "p-1", "d", "unknown"].map((id) => conversation.isInvocation(id)), [true, false, false, false]);
});

test("runs that a rewind took back are marked, and the one that rewinds is not", () => {
  const conversation = new Conversation();
  for (const [seq, name] of [[1, "a"], [2, "b"], [3, "c"]]) conversation.add(event(seq, `e${seq}`, text("x"), { invocationId: name }));
  conversation.add(event(4, "e4", undefined, { invocationId: "d", actions: { rewindBeforeInvocationId: "b" } }));
  assert.deepEqual(conversation.runs().map((run) => run.rewound), [false, true, true, false]);
});

test("an error is an entry, and state without content is one", () => {
  const found = entries([user, event(2, "e2", undefined, { actions: { stateDelta: { k: 1 } } }), event(3, "i.end", undefined, { errorCode: "X", errorMessage: "bad" })]);
  assert.deepEqual(found.map((each) => each.kind), ["message", "change", "error"]);
});

test("state and artifacts keep which event changed them", () => {
  const events = [[2, { author: "a", timestamp: 2, actions: { stateDelta: { k: 1, b: null }, artifactDelta: { f: 0 } } }], [5, { author: "b", timestamp: 5, actions: { stateDelta: { k: 2 }, artifactDelta: { f: 1 } } }]];
  const [b, k] = stateHistory(events);
  assert.deepEqual([b.key, b.value, k.value, k.changes.map((each) => each.seq)], ["b", null, 2, [2, 5]]);
  assert.deepEqual(artifactsOf(events)[0].versions.map((each) => [each.version, each.seq]), [[0, 2], [1, 5]]);
});

test("tokens are counted by model, with those of thoughts", () => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 2, totalTokenCount: 17 };
  const usage = usageOf([{ usageMetadata, modelVersion: "m" }, { usageMetadata, modelVersion: "m" }, { author: "user" }]);
  assert.deepEqual([usage.calls, usage.total, usage.models], [2, 34, { m: { prompt: 20, candidates: 14 } }]);
  const other = { ...usageOf([{ usageMetadata, modelVersion: "n" }]) };
  const sum = sumOf([usage, other, usage]);
  assert.deepEqual([sum.calls, sum.prompt, sum.candidates, sum.total], [5, 50, 35, 85]);
  assert.deepEqual(sum.models, { m: { prompt: 40, candidates: 28 }, n: { prompt: 10, candidates: 7 } });
  assert.deepEqual(usage.models, { m: { prompt: 20, candidates: 14 } });
});

test("a run that has called tools may have run agents as tools", () => {
  const conversation = new Conversation();
  for (const item of [user, event(2, "e2", text("one"))]) conversation.add(item);
  assert.deepEqual([conversation.hasCalls("i"), conversation.hasCalls("unknown")], [false, false]);
  conversation.add(event(3, "e3", call("c", "look")));
  assert.equal(conversation.hasCalls("i"), true);
});

test("a session is called what its user wrote first", () => {
  const conversation = new Conversation();
  assert.equal(conversation.opening(), "");
  for (const item of [event(2, "e2", text("Good day")), user]) conversation.add(item);
  assert.equal(conversation.opening(), "Hi");
});

test("the output of a node is an entry of its own, and a question is its message", () => {
  const at = (name) => ({ nodeInfo: { path: `wf@1/${name}@1` } });
  const asked = call("q", "adk_request_input", { interruptId: "q", message: "Good?" });
  const [, output, question, said] = entries([
    user,
    event(2, "e2", undefined, { output: { n: 0 }, ...at("a") }),
    event(3, "e3", asked, { longRunningToolIds: ["q"], ...at("ask") }),
    event(4, "e4", text("Hi"), { output: "Hi", ...at("b") }),
  ]);
  assert.deepEqual([output.kind, output.output], ["output", { n: 0 }]);
  assert.equal(questionOf(question), "Good?");
  assert.equal(question.answers, false); // no model asks it
  assert.equal(said.kind, "message");
  assert.equal(questionOf({ name: "adk_request_input", args: { message: "of a model" } }), null);
});
