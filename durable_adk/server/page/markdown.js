// Reads the part of Markdown that models write. Pure: the result is data, not HTML.
//
// Blocks: {type: paragraph|heading|code|list|quote|table|rule}; inlines: {type: text|strong|em|code|link|break}.
// Images stay text: an address in an answer must not be fetched.

export function parseMarkdown(text) {
  if (text.length > LONGEST) return [{ type: "paragraph", children: [{ type: "text", text }] }];
  return blocks(text.replace(/\r\n?|[\u2028\u2029]/g, "\n").split("\n"), 0);
}

/** Characters of a text that is still read: what begins a link or emphasis is searched for its end each time. */
const LONGEST = 100_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*).*$/;
// Each of these takes a time that grows with the line, and not with its square: a text may be made to stop the page.
const HEADING = /^ {0,3}(#{1,6})\s(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const DIVIDER = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/; // of a trimmed line

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at, depth);
    if (block) found.push(block);
    at = next;
  }
  return found;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  if (line.trim() === "") return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    return [{ type: "heading", level: heading[1].length, children: inlines(titleOf(heading[2])) }, at + 1];
  }
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < 8 && /^ {0,3}>/.test(line)) return quoteAt(lines, at, depth);
  if (depth < 8 && ITEM.test(line)) return listAt(lines, at, depth);
  if (beginsTable(lines, at)) return tableAt(lines, at);
  return paragraphAt(lines, at);
}

/** A heading without the marks that may close it. */
function titleOf(text) {
  const title = text.trim();
  let end = title.length;
  while (title[end - 1] === "#") end -= 1;
  return title.slice(0, end).trimEnd();
}

function codeAt(lines, at, [, mark, language]) {
  const closing = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  return [{ type: "code", language, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function quoteAt(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [{ type: "quote", children: blocks(inner, depth + 1) }, end];
}

function listAt(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || item[1].length > indent.length + 1 || /\d/.test(item[2]) !== ordered) break;
    const inner = [item[3]];
    const width = item[1].length + 2;
    end += 1;
    while (end < lines.length && belongs(lines, end, width)) {
      inner.push(lines[end].replace(new RegExp(`^ {0,${item[1].length + item[2].length + 1}}`), ""));
      end += 1;
    }
    items.push(blocks(inner, depth + 1));
  }
  return [{ type: "list", ordered, start: ordered ? parseInt(mark, 10) : 1, items }, end];
}

/** Whether a line goes on with a list's item: indented, or a line that begins nothing else. */
function belongs(lines, at, width) {
  const line = lines[at];
  if (line.trim() === "") {
    const next = lines[at + 1] ?? "";
    return next.trim() !== "" && next.search(/\S/) >= width;
  }
  if (line.search(/\S/) >= width) return true;
  return !ITEM.test(line) && !beginsBlock(line) && lines[at - 1].trim() !== "";
}

function beginsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line);
}

const columns = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);

/** Whether a line is the head of a table: the next one divides it from rows of as many columns. */
function beginsTable(lines, at) {
  const [line, next = ""] = [lines[at], lines[at + 1]];
  return line.includes("|") && DIVIDER.test(next.trim()) && columns(line).length === columns(next).length;
}

function tableAt(lines, at) {
  const cells = (line) => columns(line).map((each) => inlines(each.trim().replaceAll("\\|", "|")));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  return [{ type: "table", head: cells(lines[at]), rows: lines.slice(at + 2, end).map(cells) }, end];
}

function paragraphAt(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !beginsBlock(lines[end]) && !ITEM.test(lines[end]) && !beginsTable(lines, end)) {
    end += 1;
  }
  return [{ type: "paragraph", children: inlines(lines.slice(at, end).join("\n")) }, end];
}

const INLINE = [
  [/^\\([!-/:-@[-`{-~])/, (found) => ({ type: "text", text: found[1] })],
  [/^(`+)(?!`)([^]*?[^`])\1(?!`)/, (found) => ({ type: "code", text: found[2].trim() })],
  [/^\*\*(?=\S)([^]*?\S)\*\*/, (found, deep) => ({ type: "strong", children: inlines(found[1], deep) })],
  [/^\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*)/, (found, deep) => ({ type: "em", children: inlines(found[1], deep) })],
  [/^_(?=[^\s_])([^]*?[^\s_])_(?![\p{L}\p{N}_])/u, (found, deep) => ({ type: "em", children: inlines(found[1], deep) })],
  // In an address parentheses belong to it as pairs.
  [/^\[([^\]\n]+)\]\(<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+"[^"]*")?\)/, link],
  [/^(https?:\/\/(?:[^\s<>()\]]|\([^\s<>()]*\))*(?:[^\s<>()\].,;:!?'"]|\([^\s<>()]*\)))/, (found) => linkTo(found[1], [{ type: "text", text: found[1] }])],
  [/^(?: {2,}|\\)\n/, () => ({ type: "break" })],
];

/** What stands in front of a character that begins nothing, as it is amid a word. */
const INSIDE = { h: /\w/, _: /[\p{L}\p{N}_]/u };

function link(found, deep) {
  return linkTo(found[2], inlines(found[1], deep)) ?? { type: "text", text: found[0] };
}

/** A link, if it leads to where a link may lead. */
export function linkTo(address, children) {
  return /^(https?:\/\/|mailto:)/i.test(address) ? { type: "link", address, children } : null;
}

export function inlines(text, depth = 0) {
  const found = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) found.push({ type: "text", text: plain });
    plain = "";
  };
  while (at < text.length) {
    const made = depth < 6 && "\\`*_[h ".includes(text[at]) ? inlineAt(text, at, depth) : null;
    if (made) {
      if (made.node.type === "text") plain += made.node.text;
      else {
        flush();
        found.push(made.node);
      }
      at += made.length;
    } else {
      plain += text[at];
      at += 1;
    }
  }
  flush();
  return found;
}

function inlineAt(text, at, depth) {
  const rest = text.slice(at, at + 4000);
  for (const [pattern, make] of INLINE) {
    const match = pattern.exec(rest);
    if (!match || INSIDE[text[at]]?.test(text[at - 1] ?? " ")) continue;
    return { node: make(match, depth + 1), length: match[0].length };
  }
  return null;
}
