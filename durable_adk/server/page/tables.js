// Reads a table out of CSV, or of JSON that is a list of objects. Pure.

import { isExact } from "./json.js";

export function parseCsv(text) {
  const separator = separatorOf(text);
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (char === '"' && cell === "") quoted = true;
    else if (char === separator) {
      row.push(cell);
      cell = "";
    } else if (char === "\n" || char === "\r") {
      if (char === "\r" && text[at + 1] === "\n") at += 1;
      row.push(cell);
      rows.push(row);
      row = [];
      cell = "";
    } else cell += char;
  }
  if (cell !== "" || row.length) rows.push([...row, cell]);
  return rows.filter((each) => each.length > 1 || each[0] !== "");
}

function separatorOf(text) {
  const first = text.slice(0, text.search(/[\r\n]|$/));
  const counted = [",", ";", "\t"].map((char) => [first.split(char).length, char]);
  return counted.sort(([one], [other]) => other - one)[0][1];
}

/** The rows of a JSON value, names first; null if it is no list of objects. */
export function tableOf(value) {
  const isRow = (each) => typeof each === "object" && each !== null && !Array.isArray(each) && !isExact(each);
  if (!Array.isArray(value) || !value.length || !value.every(isRow)) return null;
  const names = [...new Set(value.flatMap((each) => Object.keys(each)))];
  const cell = (each) => (typeof each === "string" ? each : each === undefined ? "" : JSON.stringify(each));
  return [names, ...value.map((each) => names.map((name) => cell(each[name])))];
}
