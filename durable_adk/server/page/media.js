// Shows bytes: images, tables, texts, PDFs, sound; all else as a file to save.

import { h, icon } from "./dom.js";
import { parse } from "./json.js";
import { table } from "./prose.js";
import { parseCsv, tableOf } from "./tables.js";
import { prose } from "./prose.js";

const MOST_ROWS = 500;
const MOST_TEXT = 200000;

/** The element that shows a blob of a content's part: `{mimeType, data}`, base64 as ADK has it, or `{mimeType, bytes}`. */
export function mediaOf({ mimeType = "", data = "", bytes = bytesOf(data) }, name) {
  const type = mimeType.split(";")[0].trim().toLowerCase();
  const kind = kindOf(type, name);
  const url = URL.createObjectURL(new Blob([bytes], { type: SHOWN_AS[kind] ?? (kind === "image" ? type : "application/octet-stream") }));
  const save = h("a", { class: "save", href: url, download: name.split("/").at(-1) }, icon("down"), "Save");
  const size = bytes.length < 1024 ? `${bytes.length} B` : `${(bytes.length / 1024).toFixed(bytes.length < 10240 ? 1 : 0)} KB`;
  const caption = h("figcaption", null, h("span", null, name), h("span", { class: "facts" }, `${type || "unknown"} · ${size}`), save);
  return h("figure", { class: `media ${kind}` }, SHOW[kind](url, name, bytes), caption);
}

const SHOWN_AS = { pdf: "application/pdf" };

export function kindOf(type, name = "") {
  if (/^image\/(png|jpe?g|gif|webp|avif|bmp|svg\+xml)$/.test(type)) return "image";
  if (type === "application/pdf") return "pdf";
  if (type === "text/csv" || /\.(csv|tsv)$/i.test(name)) return "csv";
  if (type === "application/json" || type.endsWith("+json") || /\.json$/i.test(name)) return "json";
  if (type === "text/markdown" || /\.md$/i.test(name)) return "markdown";
  if (/^audio\//.test(type)) return "audio";
  if (/^text\//.test(type) || /(xml|yaml|javascript)$/.test(type)) return "text";
  return "file";
}

const SHOW = {
  // An SVG in an <img> runs no script and loads nothing.
  image: (url, name) => h("img", { src: url, alt: name, loading: "lazy" }),
  pdf: (url, name) => h("iframe", { src: url, title: name }),
  audio: (url) => h("audio", { src: url, controls: true }),
  file: () => h("p", { class: "quiet" }, "No preview. Save the file to open it."),
  text: (_, name, bytes) => plain(textOf(bytes)),
  markdown: (_, name, bytes) => prose(textOf(bytes)),
  csv: (_, name, bytes) => rows(parseCsv(textOf(bytes)), name),
  json(_, name, bytes) {
    const text = textOf(bytes);
    try {
      const value = parse(text);
      const found = tableOf(value);
      return found ? rows(found, name) : plain(JSON.stringify(value, null, 2));
    } catch {
      return plain(text);
    }
  },
};

function rows([head = [], ...others], name) {
  const shown = table(head, others.slice(0, MOST_ROWS), name);
  if (others.length <= MOST_ROWS) return shown;
  return h("div", null, shown, h("p", { class: "quiet" }, `Showing the first ${MOST_ROWS} of ${others.length} rows.`));
}

function plain(text) {
  const cut = text.length > MOST_TEXT;
  return h("div", null, h("pre", { class: "code", tabindex: 0 }, h("code", null, text.slice(0, MOST_TEXT))), cut && h("p", { class: "quiet" }, "Truncated here. Save the file to see all of it."));
}

/** Bytes of base64, in the URL's alphabet too. */
export function bytesOf(data) {
  const binary = atob(data.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

const textOf = (bytes) => new TextDecoder().decode(bytes);
