// Shows a field of a schema as inputs, and reads what was put in.

import { button, fill, h } from "./dom.js";
import { numberOf, parse, sourceOf } from "./json.js";
import { emptyOf, problemsOf } from "./schema.js";

let made = 0;

/**
 * A form for a field. `read()` returns the value, or null after showing what is wrong with it.
 *
 * One that nobody has changed reads as the initial value, if there is one.
 *
 * What is put in is kept as the draft, if there is one to keep it, until it is set to null. No secret is.
 *
 * @returns {{element: HTMLElement, read: function(): ({value: any}|null)}}
 */
export function formOf(field, initial, draft = null) {
  const of = JSON.stringify(field);
  const kept = draft?.get();
  const known = kept?.of === of ? kept : null; // the tool may ask for something else by now
  const root = inputOf(field, known ? known.value : (initial ?? emptyOf(field)), "", "");
  const summary = h("div", { class: "form-problem", role: "alert" });
  const element = h("div", { class: "form" }, root.element, summary);
  let touched = known !== null;
  const read = () => {
    if (!touched && initial !== undefined) return { value: initial };
    for (const place of element.querySelectorAll(".problem")) place.textContent = "";
    for (const place of element.querySelectorAll("[aria-invalid]")) place.removeAttribute("aria-invalid");
    const value = root.value();
    const broken = [...element.querySelectorAll("[data-unreadable]")];
    const problems = broken.length ? [] : problemsOf(field, value);
    for (const { path, message } of problems) show(element, path, message);
    const general = problems.length || broken.length;
    summary.textContent = general ? "Not sent. Correct the fields above." : "";
    element.querySelector("[aria-invalid], [data-unreadable]")?.focus();
    return general ? null : { value };
  };
  for (const [path, text] of known?.unreadable ?? []) put(element, path, text);
  const changed = () => {
    touched = true;
    if (draft) keep(element, root, draft, of);
  };
  for (const kind of ["input", "change"]) element.addEventListener(kind, changed);
  element.addEventListener("click", ({ target }) => target.closest("button") && changed()); // adds or removes an item
  return { element, read };
}

function keep(element, root, draft, of) {
  if (element.querySelector("[type=password]")) {
    draft.set(null);
    return;
  }
  const value = root.value();
  const unreadable = [...element.querySelectorAll("[data-unreadable]")];
  draft.set({ of, value, unreadable: unreadable.map((each) => [each.closest("[data-path]").dataset.path, each.value]) });
}

function put(element, path, text) {
  const input = element.querySelector(`[data-path="${CSS.escape(path)}"] > textarea`);
  if (!input) return;
  input.value = text;
  input.dispatchEvent(new Event("input"));
}

function show(element, path, message) {
  const exact = [...element.querySelectorAll("[data-path]")].filter((each) => {
    return path === each.dataset.path || path.startsWith(`${each.dataset.path}.`) || each.dataset.path === "";
  });
  const place = exact.sort((one, other) => other.dataset.path.length - one.dataset.path.length)[0];
  if (!place) return;
  place.querySelector(":scope > .problem").textContent = message;
  place.querySelector("input, select, textarea")?.setAttribute("aria-invalid", "true");
}

function inputOf(field, initial, name, path) {
  if (field.nullable && ["array", "object", "boolean"].includes(field.kind)) {
    return optional({ ...field, nullable: false }, initial, name, path);
  }
  return INPUTS[field.kind](field, initial, name, path);
}

function labelled(field, name, path, control, { id }) {
  const title = field.title || name;
  return h(
    "div",
    { class: "field", "data-path": path },
    title && h("label", { for: id }, title),
    field.description && h("p", { class: "hint", id: `${id}-hint` }, field.description),
    control,
    h("p", { class: "problem", id: `${id}-problem` }),
  );
}

function attributesOf(field, id, name) {
  const described = field.description ? `${id}-hint ${id}-problem` : `${id}-problem`;
  return { id, "aria-describedby": described, "aria-label": field.title || name ? null : "Value" };
}

const INPUTS = {
  string(field, initial, name, path) {
    const id = `field-${(made += 1)}`;
    const text = initial ?? "";
    const long = text.length > 60 || text.includes("\n") || (field.schema.maxLength ?? 0) > 120;
    const kinds = { email: "email", date: "date", time: "time", uri: "url", password: "password" };
    const attributes = { ...attributesOf(field, id, name), value: text, autocomplete: "off" };
    const input = long
      ? h("textarea", { ...attributes, rows: 4 })
      : h("input", { ...attributes, type: kinds[field.schema.format] ?? "text" });
    const value = () => (input.value === "" && field.nullable ? null : input.value);
    return { element: labelled(field, name, path, input, { id }), value };
  },

  number(field, initial, name, path) {
    const id = `field-${(made += 1)}`;
    const step = field.kind === "integer" ? "1" : "any";
    const { minimum, maximum } = field.schema;
    const input = h("input", { ...attributesOf(field, id, name), type: "number", step, min: sourceOf(minimum), max: sourceOf(maximum), value: sourceOf(initial ?? "") });
    const value = () => (input.value === "" ? null : numberOf(input.value));
    return { element: labelled(field, name, path, input, { id }), value };
  },

  integer: (...args) => INPUTS.number(...args),

  boolean(field, initial, name, path) {
    const id = `field-${(made += 1)}`;
    const input = h("input", { ...attributesOf(field, id, name), type: "checkbox", checked: initial === true });
    const element = labelled(field, name, path, input, { id });
    element.classList.add("check");
    return { element, value: () => input.checked };
  },

  enum(field, initial, name, path) {
    const id = `field-${(made += 1)}`;
    const open = field.nullable || !field.options.includes(initial);
    const options = field.options.map((each, index) => h("option", { value: String(index) }, String(each)));
    const select = h("select", attributesOf(field, id, name), open && h("option", { value: "" }, field.nullable ? "none" : "choose…"), options);
    select.value = open && !field.options.includes(initial) ? "" : String(field.options.indexOf(initial));
    const value = () => (select.value === "" ? null : field.options[Number(select.value)]);
    return { element: labelled(field, name, path, select, { id }), value };
  },

  array(field, initial, name, path) {
    let items = [];
    const list = h("div", { class: "items" });
    const add = (value) => {
      const inner = inputOf(field.item, value ?? emptyOf(field.item), "", `${path}${path && "."}${items.length}`);
      const row = h("div", { class: "item" }, inner.element);
      const each = { ...inner, row };
      const label = `Remove ${name || "item"} ${items.length + 1}`;
      row.append(button(label, () => remove(each), { only: "cross" }));
      items.push(each);
      list.append(row);
    };
    const remove = (each) => {
      const values = items.filter((one) => one !== each).map((one) => one.value());
      items = [];
      fill(list);
      values.forEach(add); // anew: the paths of those behind it change
    };
    (Array.isArray(initial) ? initial : []).forEach(add);
    const legend = (field.title || name) && h("legend", null, field.title || name);
    const element = h(
      "fieldset",
      { class: "field array", "data-path": path },
      legend,
      field.description && h("p", { class: "hint" }, field.description),
      list,
      button("Add", () => add(undefined), { kind: "small" }),
      h("p", { class: "problem" }),
    );
    return { element, value: () => items.map((each) => each.value()) };
  },

  object(field, initial, name, path) {
    const inner = field.properties.map((each) => {
      const at = path ? `${path}.${each.name}` : each.name;
      const { [each.name]: first = emptyOf(each.field) } = initial ?? {}; // null is a value
      const input = inputOf(each.field, first, each.name, at);
      const label = input.element.querySelector(":scope > label");
      if (each.required && label) {
        label.append(h("span", { class: "needed", title: "required", "aria-hidden": "true" }, " *"));
        input.element.querySelector("input:not([type=checkbox]), select, textarea")?.setAttribute("aria-required", "true");
      }
      return { ...each, ...input };
    });
    const value = () => {
      const pairs = inner.map((each) => [each, each.value()]);
      const given = pairs.filter(([each, read]) => each.required || !isEmpty(each.field, read));
      return Object.fromEntries(given.map(([each, read]) => [each.name, read]));
    };
    const legend = (name || field.title) && h("legend", null, field.title || name);
    const hint = field.description && h("p", { class: "hint" }, field.description);
    const kind = `field object ${path === "" ? "outermost" : ""}`;
    const problem = h("p", { class: "problem" });
    const element = h("fieldset", { class: kind, "data-path": path }, legend, hint, inner.map((each) => each.element), problem);
    return { element, value };
  },

  json(field, initial, name, path) {
    const id = `field-${(made += 1)}`;
    const text = JSON.stringify(initial ?? null, null, 2) ?? "null";
    const rows = Math.min(12, Math.max(3, text.split("\n").length));
    const titled = { ...field, title: field.title || name || "JSON" };
    const input = h("textarea", { ...attributesOf(titled, id, name), rows, spellcheck: "false", class: "mono", value: text });
    const element = labelled(titled, name, path, input, { id });
    const value = () => {
      try {
        const read = parse(input.value);
        delete input.dataset.unreadable;
        return read;
      } catch (error) {
        input.dataset.unreadable = "";
        element.querySelector(".problem").textContent = `Not valid JSON: ${error.message}`;
        return null;
      }
    };
    input.addEventListener("input", () => {
      element.querySelector(".problem").textContent = "";
      value();
    });
    return { element, value };
  },
};

/** Nothing was put into a field that needs nothing: it is left out. */
function isEmpty(field, value) {
  if (value === null || value === undefined) return true;
  return value === "" && field.initial === undefined;
}

/** A field that may be null: a box says whether it has a value. */
function optional(field, initial, name, path) {
  const id = `field-${(made += 1)}`;
  const place = h("div");
  let inner = null;
  const box = h("input", { type: "checkbox", id, checked: initial !== null && initial !== undefined });
  const draw = () => {
    inner = box.checked ? inputOf(field, initial ?? emptyOf(field), name, path) : null;
    fill(place, inner?.element);
  };
  box.addEventListener("change", draw);
  draw();
  const label = h("label", { for: id }, `Set ${field.title || name || "a value"}`);
  const element = h("div", { class: "optional" }, h("div", { class: "field check" }, box, label), place);
  return { element, value: () => (inner ? inner.value() : null) };
}
