import assert from "node:assert/strict";
import { test } from "node:test";

import { SseParser } from "./sse.js";

const STREAM =
  "\ufeffretry: 1000\n\n: ping\n\nevent: event\nid: 1\ndata: {\"a\":\ndata: 1}\n\nid: 2:e%3A1:1:0\r\ndata: ü€😀\r\n\r\ndata\ndata:x\rid: 3\r\r\nevent: status\n\ndata: last\n\n";
const EXPECTED = [
  { id: "1", event: "event", data: '{"a":\n1}' },
  { id: "2:e%3A1:1:0", event: "message", data: "ü€😀" },
  { id: "3", event: "message", data: "\nx" },
  { id: "3", event: "message", data: "last" },
];

test("events are the same however the text is cut", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const parser = new SseParser();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...parser.push(STREAM.slice(at, at + size)));
    assert.deepEqual(found, EXPECTED, `cut every ${size} characters`);
    assert.equal(parser.retry, 1000);
    assert.equal(parser.lastEventId, "3");
  }
});

test("an event that was cut off is forgotten, and so is its id", () => {
  const parser = new SseParser();
  parser.push("id: 1\ndata: whole\n\nid: 2\ndata: ha");
  assert.equal(parser.lastEventId, "1");
  parser.reset();
  assert.deepEqual(parser.push("id: 2\ndata: half\n\n"), [{ id: "2", event: "message", data: "half" }]);
});
