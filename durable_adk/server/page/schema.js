// Reads a JSON schema as a form: which fields, of which kind, and whether a value fits. Pure.

import { isExact, sourceOf } from "./json.js";

const DEEPEST = 6;

/**
 * The field that a schema describes: `{kind, title, description, nullable, initial, ...}`.
 *
 * Kinds are string, number, integer, boolean, enum, array (`item`), object (`properties`), and json
 * for all that a form cannot show.
 */
export function fieldOf(schema, root = schema, depth = 0) {
  const { resolved, nullable } = resolve(schema, root);
  const kind = depth > DEEPEST ? "json" : kindOf(resolved);
  const field = {
    kind,
    nullable,
    title: resolved.title ?? "",
    description: resolved.description ?? "",
    initial: resolved.default,
    schema: resolved,
  };
  if (kind === "enum") field.options = resolved.enum ?? [resolved.const];
  if (kind === "array") field.item = fieldOf(resolved.items ?? {}, root, depth + 1);
  if (kind === "object") {
    const required = new Set(resolved.required ?? []);
    field.properties = Object.entries(resolved.properties).map(([name, each]) => ({
      name,
      required: required.has(name),
      field: fieldOf(each, root, depth + 1),
    }));
  }
  return field;
}

function resolve(schema, root) {
  let resolved = typeof schema === "object" && schema ? schema : {};
  let nullable = resolved.nullable === true;
  for (let step = 0; step < 16; step += 1) {
    const choices = resolved.anyOf ?? resolved.oneOf;
    if (typeof resolved.$ref === "string") {
      const { $ref, ...rest } = resolved;
      resolved = { ...pointed(root, $ref), ...rest };
    } else if (Array.isArray(resolved.allOf) && resolved.allOf.length === 1) {
      const { allOf, ...rest } = resolved;
      resolved = { ...allOf[0], ...rest };
    } else if (Array.isArray(choices) && choices.some(isNull)) {
      const others = choices.filter((each) => !isNull(each));
      if (others.length !== 1) break;
      const { anyOf, oneOf, ...rest } = resolved;
      resolved = { ...others[0], ...rest };
      nullable = true;
    } else break;
  }
  if (Array.isArray(resolved.type) && resolved.type.includes("null")) {
    const types = resolved.type.filter((each) => each !== "null");
    resolved = { ...resolved, type: types.length === 1 ? types[0] : types };
    nullable = true;
  }
  return { resolved, nullable };
}

function isNull(schema) {
  return String(schema?.type).toLowerCase() === "null";
}

function pointed(root, ref) {
  if (!ref.startsWith("#/")) return {};
  const names = ref.slice(2).split("/");
  const at = names.reduce(
    (place, name) => place?.[name.replaceAll("~1", "/").replaceAll("~0", "~")],
    root,
  );
  return typeof at === "object" && at ? at : {};
}

function kindOf(schema) {
  const simple = (value) => ["string", "number", "boolean"].includes(typeof value);
  if (Array.isArray(schema.enum)) return schema.enum.every(simple) ? "enum" : "json";
  if (schema.const !== undefined) return simple(schema.const) ? "enum" : "json";
  const type = typeof schema.type === "string" ? schema.type.toLowerCase() : "";
  if (["string", "number", "integer", "boolean"].includes(type)) return type;
  if (type === "array" && schema.items && !schema.prefixItems) return "array";
  if ((type === "object" || !type) && schema.properties) return "object";
  return "json";
}

/** A schema for a value that has none: what its form looks like is what the value is like. */
export function schemaOf(value) {
  if (typeof value === "string") return { type: "string" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (typeof value === "number" || isExact(value)) return { type: "number" };
  if (Array.isArray(value)) {
    const items = value.map(schemaOf).reduce(both, null);
    return items?.type ? { type: "array", items } : {};
  }
  if (typeof value === "object" && value && Object.keys(value).length) {
    const entries = Object.entries(value).map(([key, each]) => [key, schemaOf(each)]);
    return { type: "object", properties: Object.fromEntries(entries), required: Object.keys(value) };
  }
  return {};
}

/** The schema that the values of two have in common; `{}` if there is none. */
function both(one, other) {
  if (!one || !other) return one ?? other;
  if (one.type !== other.type) return {};
  if (one.type === "array") return { ...one, items: both(one.items, other.items) };
  if (one.type !== "object") return one;
  const properties = { ...one.properties };
  for (const [key, each] of Object.entries(other.properties)) properties[key] = both(properties[key], each);
  return { ...one, properties, required: one.required.filter((key) => other.required.includes(key)) };
}

/** What a form shows at first: the default, or what is as good as empty. */
export function emptyOf(field) {
  if (field.initial !== undefined) return field.initial;
  if (field.nullable) return null;
  if (field.kind === "object") {
    const needed = field.properties.filter((each) => each.required || each.field.initial !== undefined);
    return Object.fromEntries(needed.map((each) => [each.name, emptyOf(each.field)]));
  }
  return { string: "", boolean: false, array: [], json: {} }[field.kind] ?? null;
}

/** What is wrong with a value, as `[{path, message}]`; paths are like `address.lines.0`. */
export function problemsOf(field, value, path = "") {
  if (value === null || value === undefined) {
    const fine = field.nullable || field.kind === "json";
    return fine ? [] : [{ path, message: "Required" }];
  }
  const check = CHECKS[field.kind];
  return check ? check(field, value, path) : [];
}

const CHECKS = {
  string: ({ schema }, value, path) => {
    if (typeof value !== "string") return [{ path, message: "Must be text" }];
    if (value.length < (schema.minLength ?? 0)) {
      const least = schema.minLength === 1 ? "Required" : `Must have at least ${schema.minLength} characters`;
      return [{ path, message: least }];
    }
    if (value.length > (schema.maxLength ?? Infinity)) {
      return [{ path, message: `Must have at most ${schema.maxLength} characters` }];
    }
    return matches(schema.pattern, value) ? [] : [{ path, message: `Must match ${schema.pattern}` }];
  },
  number: (field, value, path) => range(field, value, path),
  integer: (field, value, path) =>
    Number.isInteger(value) || isExact(value) ? range(field, value, path) : [{ path, message: "Must be a whole number" }],
  boolean: (_, value, path) =>
    typeof value === "boolean" ? [] : [{ path, message: "Must be yes or no" }],
  enum: ({ options }, value, path) =>
    options.includes(value) ? [] : [{ path, message: `Must be one of ${options.join(", ")}` }],
  array: ({ item, schema }, value, path) => {
    if (!Array.isArray(value)) return [{ path, message: "Must be a list" }];
    const inside = value.flatMap((each, index) => problemsOf(item, each, join(path, index)));
    if (value.length < (schema.minItems ?? 0)) {
      return [{ path, message: `Must have at least ${schema.minItems} items` }, ...inside];
    }
    if (value.length > (schema.maxItems ?? Infinity)) {
      return [{ path, message: `Must have at most ${schema.maxItems} items` }, ...inside];
    }
    return inside;
  },
  object: ({ properties }, value, path) => {
    if (typeof value !== "object" || Array.isArray(value)) {
      return [{ path, message: "Must be an object" }];
    }
    return properties.flatMap(({ name, required, field }) => {
      if (value[name] === undefined && !required) return [];
      return problemsOf(field, value[name], join(path, name));
    });
  },
};

function range({ schema }, value, path) {
  if (!isExact(value) && !Number.isFinite(value)) {
    return [{ path, message: "Must be a number" }];
  }
  const wrong = BOUNDS.find(([name, _, fits]) => schema[name] !== undefined && !fits(comparable(value), comparable(schema[name])));
  return wrong ? [{ path, message: `Must be ${wrong[1]} ${sourceOf(schema[wrong[0]])}` }] : [];
}

const BOUNDS = [
  ["minimum", "at least", (value, bound) => value >= bound],
  ["maximum", "at most", (value, bound) => value <= bound],
  ["exclusiveMinimum", "above", (value, bound) => value > bound],
  ["exclusiveMaximum", "below", (value, bound) => value < bound],
];

/** What `<` compares exactly, also with a number. */
const comparable = (value) => (isExact(value) ? BigInt(value.rawJSON) : value);

function matches(pattern, value) {
  if (typeof pattern !== "string") return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern that this language cannot read: the server decides
  }
}

function join(path, name) {
  return path === "" ? String(name) : `${path}.${name}`;
}
