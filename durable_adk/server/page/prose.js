// Shows the Markdown that a model wrote.

import { h } from "./dom.js";
import { parseMarkdown } from "./markdown.js";

export function prose(text) {
  return h("div", { class: "prose" }, parseMarkdown(text).map(block));
}

function block(node) {
  switch (node.type) {
    case "heading":
      return h("p", { class: `heading heading-${node.level}`, role: "heading", "aria-level": Math.min(node.level + 2, 6) }, node.children.map(inline));
    case "code":
      return h("pre", { class: "code", tabindex: 0 }, h("code", null, node.text));
    case "list":
      return h(node.ordered ? "ol" : "ul", node.ordered ? { start: node.start } : null, node.items.map(item));
    case "quote":
      return h("blockquote", null, node.children.map(block));
    case "rule":
      return h("hr");
    case "table":
      return table(node.head.map((cell) => cell.map(inline)), node.rows.map((row) => row.map((cell) => cell.map(inline))));
    default:
      return h("p", null, node.children.map(inline));
  }
}

function item(children) {
  const tight = children.length && children[0].type === "paragraph";
  const first = tight ? children[0].children.map(inline) : [];
  return h("li", null, first, children.slice(tight ? 1 : 0).map(block));
}

function inline(node) {
  switch (node.type) {
    case "strong":
      return h("strong", null, node.children.map(inline));
    case "em":
      return h("em", null, node.children.map(inline));
    case "code":
      return h("code", null, node.text);
    case "break":
      return h("br");
    case "link":
      return h("a", { href: node.address, target: "_blank", rel: "noopener noreferrer" }, node.children.map(inline));
    default:
      return node.text;
  }
}

/** A table in a frame that scrolls by itself. */
export function table(head, rows, label = "Table") {
  const cells = (row, tag) => row.map((cell) => h(tag, tag === "th" ? { scope: "col" } : null, cell));
  return h(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, cells(head, "th"))), h("tbody", null, rows.map((row) => h("tr", null, cells(row, "td"))))),
  );
}
