import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { href: "http://localhost/" };
globalThis.sessionStorage = { getItem: () => null };
const { getInvocation, postInvocation, untilCreated } = await import("./api.js");

test("a request for an invocation names its session", async () => {
  const sent = [];
  globalThis.fetch = async (url, { method, body }) => {
    sent.push([method, url.pathname + url.search, body]);
    return new Response("{}");
  };
  const key = { appName: "app", userId: "u", sessionId: "s 1", callId: "c" };
  await getInvocation(key, "i");
  await postInvocation(key, "i", "answers", { confirmed: true });
  const query = "?app_name=app&user_id=u&session_id=s+1";
  assert.deepEqual(sent, [
    ["GET", `/invocations/i${query}`, undefined],
    ["POST", `/invocations/i/answers${query}`, '{"confirmed":true}'],
  ]);
});

test("a session that its first run has not created yet is waited for", async (context) => {
  context.mock.method(globalThis, "setTimeout", (then) => queueMicrotask(then));
  const answers = [404, 404, 200, 500];
  globalThis.fetch = async () => new Response("{}", { status: answers.shift() });
  const said = [];
  await untilCreated({ appName: "app", userId: "u", sessionId: "s" }, (text) => said.push(text));
  assert.deepEqual([answers, said.length], [[500], 2]);
});
