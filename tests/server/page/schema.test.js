import assert from "node:assert/strict";
import { test } from "node:test";

import { emptyOf, fieldOf, problemsOf, schemaOf } from "./schema.js";

const ADDRESS = { type: "object", properties: { city: { type: "string", minLength: 1 }, lines: { type: "array", items: { type: "string" } } }, required: ["city"] };
const ORDER = {
  $defs: { Address: ADDRESS },
  type: "object",
  properties: {
    size: { enum: ["S", "M"], title: "Size" },
    number: { type: "integer", minimum: 1, maximum: 9 },
    price: { anyOf: [{ type: "number" }, { type: "null" }], default: null },
    gift: { type: "boolean", default: true },
    to: { $ref: "#/$defs/Address" },
  },
  required: ["size", "number", "to"],
};
const kinds = (schema) => fieldOf(schema).properties.map((each) => each.field.kind);

test("each kind of field is known, through references and null", () => {
  assert.deepEqual(kinds(ORDER), ["enum", "integer", "number", "boolean", "object"]);
  const price = fieldOf(ORDER).properties[2].field;
  assert.deepEqual([price.nullable, emptyOf(price)], [true, null]);
  assert.deepEqual(fieldOf({ type: "OBJECT", properties: { a: { type: "STRING" } } }).properties[0].field.kind, "string");
});

test("what a form cannot show is JSON", () => {
  for (const schema of [{}, true, null, { type: ["string", "number"] }, { oneOf: [{ type: "string" }, { type: "number" }] }, { type: "object" }, { type: "array" }, { enum: [{}, 1] }, { $ref: "#/nowhere" }, { $ref: "https://elsewhere/x" }]) {
    assert.equal(fieldOf(schema).kind, "json", JSON.stringify(schema));
  }
});

test("a schema that contains itself ends", () => {
  const node = { $defs: { Node: { type: "object", properties: { next: { $ref: "#/$defs/Node" } }, required: ["next"] } }, $ref: "#/$defs/Node" };
  assert.equal(fieldOf(node).kind, "object");
  assert.ok(emptyOf(fieldOf(node)));
});

test("what is wrong is said, each at its path", () => {
  const field = fieldOf(ORDER);
  const wrong = { size: "L", number: 12, price: "x", to: { city: "", lines: [1] } };
  assert.deepEqual(problemsOf(field, wrong).map((each) => each.path), ["size", "number", "price", "to.city", "to.lines.0"]);
  assert.deepEqual(problemsOf(field, { size: "S", number: 2, to: { city: "Bonn" } }), []);
  assert.deepEqual(problemsOf(field, {}).map((each) => each.path), ["size", "number", "to"]);
  assert.deepEqual(problemsOf(field, { size: "S", number: 2.5, to: { city: "Bonn" } })[0].message, "Must be a whole number");
});

test("a value without a schema fits the one that is made for it", () => {
  for (const value of [{ a: "x", n: 1, yes: true, list: ["a"], deep: { b: 2 }, odd: [1, "a"], none: null, empty: {}, guests: [{ name: "Ann", age: 3 }, { name: "Bo", kids: [] }], grid: [[1], [2, 3]], [1]: [[], ["a"]] }, "x", 4, []]) {
    const field = fieldOf(schemaOf(value));
    assert.deepEqual(problemsOf(field, value), [], JSON.stringify(value));
  }
});

test("lists of objects and of lists have fields of their own", () => {
  const guests = fieldOf(schemaOf([{ name: "Ann", age: 3, at: { row: 1 } }, { name: "Bo", at: { row: 2, seat: "C" } }]));
  const { item } = guests;
  assert.deepEqual([guests.kind, item.kind], ["array", "object"]);
  assert.deepEqual(item.properties.map((each) => [each.name, each.field.kind, each.required]), [["name", "string", true], ["age", "number", false], ["at", "object", true]]);
  assert.deepEqual(item.properties[2].field.properties.map((each) => each.name), ["row", "seat"]);
  assert.equal(fieldOf(schemaOf([[1], [2]])).item.item.kind, "number");
  for (const unlike of [[{ a: 1 }, "b"], [{}], [null]]) assert.equal(fieldOf(schemaOf(unlike)).kind, "json");
  assert.equal(fieldOf(schemaOf([{ a: 1 }, { a: "x" }])).item.properties[0].field.kind, "json");
});
