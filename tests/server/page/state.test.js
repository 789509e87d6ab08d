import assert from "node:assert/strict";
import { test } from "node:test";

import { stateOf } from "./state.js";

const changed = (key, time, value) => ({ key, value, changes: [{ seq: 1, time, value }] });

test("a value is the present one, and says if no event of the session made it", () => {
  const history = [changed("same", 5, { a: 1, b: 2 }), changed("user:name", 5, "Bea"), changed("app:gone", 5, "x"), changed("new", 8, "newer")];
  const state = { same: { b: 2, a: 1 }, "user:name": "Cy", new: "old", "app:given": 0 };
  const found = stateOf(history, { state, lastUpdateTime: 7 });
  assert.deepEqual(
    found.map(({ key, value, elsewhere, changes }) => [key, value, elsewhere, changes.length]),
    [
      ["same", { b: 2, a: 1 }, false, 1],
      ["user:name", "Cy", true, 1],
      ["app:gone", null, true, 1],
      ["new", "newer", false, 1],
      ["app:given", 0, false, 0],
    ],
  );
});

test("a key that was removed here, and is not there, is not changed elsewhere", () => {
  const [gone] = stateOf([changed("gone", 1, null)], { state: {}, lastUpdateTime: 2 });
  assert.deepEqual([gone.value, gone.elsewhere], [null, false]);
});
