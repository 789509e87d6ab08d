import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { href: "http://localhost/" };
globalThis.sessionStorage = { getItem: () => null };
const { get, getInvocation, postInvocation } = await import("./api.js");

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

test("a request is given up before and after it is sent", { timeout: 60_000 }, async () => {
  globalThis.fetch = (_, { signal }) =>
    new Promise((_, fail) => (signal.aborted ? fail(signal.reason) : signal.addEventListener("abort", () => fail(signal.reason))));
  const before = AbortSignal.abort();
  const after = new AbortController();
  const sent = [before, after.signal].map((signal) => get(["runs"], {}, { signal }));
  after.abort();
  for (const each of sent) await assert.rejects(each, { name: "AbortError" });
});
