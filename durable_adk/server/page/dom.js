// Makes elements. Text becomes text nodes, always: no string is ever read as HTML.

import { ago, exact } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Attributes that are null or false are left out; `on*` are listeners; the
 * children are nodes, strings, numbers, arrays of these, or nothing.
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

/** Make an element of a drawing; see `h`. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked" || name === "open") element[name] = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  inbox: "M4 13l3-8h10l3 8v6H4v-6zm0 0h5l1 3h4l1-3h5",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zm5 12l4 4",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  moon: "M20 14.5A8 8 0 019.5 4 8 8 0 1020 14.5z",
  help: "M9 9a3 3 0 115 2.2c-1 .9-2 1.4-2 2.8M12 17.5v.5",
  back: "M15 5l-7 7 7 7",
  send: "M12 19V5M6 11l6-6 6 6",
  clip: "M20 11.5l-8 8a5 5 0 01-7-7l8.5-8.5a3.3 3.3 0 014.7 4.7L9.700 17.200a1.700 1.700 0 01-2.400-2.400l7.500-7.500",
  out: "M9 6H6v12h12v-3M13 5h6v6M19 5l-9 9",
  chevron: "M9 6l6 6-6 6",
  check: "M5 12.5l4.500 4.500L19 7.500",
  cross: "M6 6l12 12M18 6L6 18",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  down: "M12 5v14M6 13l6 6 6-6",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  coins: "M12 4a8 8 0 100 16 8 8 0 000-16zM14.500 9.500c-.5-1-1.500-1.300-2.500-1.300-1.300 0-2.500.6-2.500 1.800 0 2.600 5 1.300 5 4 0 1.200-1.200 1.900-2.500 1.900-1.200 0-2.200-.5-2.700-1.500M12 6.800v1.400M12 15.800v1.400",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button; `label` is read out, and shown too unless `only` is an icon's name. */
export function button(label, onclick, { only = null, kind = "", ...attributes } = {}) {
  const shown = only ? icon(only) : label;
  const named = only ? { "aria-label": label, title: label } : {};
  const look = `button ${only ? "icon-button" : ""} ${kind}`.trim();
  return h("button", { type: "button", class: look, onclick, ...named, ...attributes }, shown);
}

/** How long something is ago, and on hover when it was. */
export function age(seconds) {
  return h("time", { title: exact(seconds), "data-since": seconds }, ago(seconds));
}

/** Have all ages in the document be those of now. */
export function tellAges() {
  for (const each of document.querySelectorAll("time[data-since]")) {
    const text = ago(Number(each.dataset.since));
    if (each.textContent !== text) each.textContent = text;
  }
}

/** Have an element have a class, and tell whether it is the current one. */
export function look(element, kind, isCurrent) {
  element.className = kind;
  if (isCurrent) element.setAttribute("aria-current", "page");
  else element.removeAttribute("aria-current");
}

/** Say something to those who listen to the page instead of looking at it. */
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place && place.textContent !== text) place.textContent = text;
}

/** A message about something that failed, where it failed; with a way to go on, if there is one. */
export function failure(error, again = null) {
  const text = h("span", null, error.message || String(error));
  return h("div", { class: "failure", role: "alert" }, text, again && button("Try again", again));
}

/** The visible element that is next to `current`, or the first. */
export function neighbour(elements, current, step) {
  const at = elements.indexOf(current);
  if (at < 0) return step > 0 ? elements[0] : elements.at(-1);
  return elements[Math.min(Math.max(at + step, 0), elements.length - 1)];
}
