import assert from "node:assert/strict";
import { test } from "node:test";

import { argumentsLine, brief, costOf, duration, shareOfTools, took } from "./format.js";
import { inlines, linkTo, parseMarkdown } from "./markdown.js";
import { readPrices } from "./preferences.js";
import { parseCsv, tableOf } from "./tables.js";

const types = (text) => parseMarkdown(text).map((each) => each.type);

test("blocks are told apart", () => {
  const text = "# Title\n\ntext\nmore\n\n- a\n- b\n  - c\n\n1. x\n\n> said\n\n```js\nlet a = '# no';\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---";
  assert.deepEqual(types(text), ["heading", "paragraph", "list", "list", "quote", "code", "table", "rule"]);
});

test("a text takes a time that grows with its length, and not with its square", () => {
  const cpu = (text) => {
    const began = process.cpuUsage();
    parseMarkdown(text);
    return process.cpuUsage(began).user + 1000;
  };
  const hostile = {
    divider: (n) => `a|b\n${" ".repeat(n)}x|`,
    heading: (n) => `# a${" ".repeat(n)}x`,
    closed: (n) => `# ${"#".repeat(n)}x`,
    item: (n) => `- ${" ".repeat(n)}a\u2028b`,
    fence: (n) => `${"`".repeat(n)}\u2028b`,
    rule: (n) => `-${" ".repeat(n)}-x`,
  };
  const ratio = (made) => cpu(made(40_000)) / cpu(made(2_000));
  for (const [name, made] of Object.entries(hostile)) {
    // Squares would take 400 times as long, each time. A busy machine is slow at times.
    assert.ok([...Array(20)].some(() => ratio(made) < 100), `${name} takes as its square`);
  }
  assert.deepEqual(parseMarkdown(`${"[".repeat(200_000)}`).length, 1);
  assert.equal(parseMarkdown("## a # b ##  ")[0].children[0].text, "a # b");
});

test("a link leads to the web or to mail, and to nothing else", () => {
  for (const bad of ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:x", "vbscript:x", "/local", "//host"]) {
    assert.equal(linkTo(bad, []), null);
    assert.ok(inlines(`[x](${bad})`).every((each) => each.type === "text"), bad);
  }
  assert.equal(inlines("[x](https://a.b/c)")[0].address, "https://a.b/c");
  assert.equal(inlines("see https://a.b/c.")[1].address, "https://a.b/c");
});

test("parentheses that are pairs belong to an address", () => {
  const address = "https://a.b/c_(d)";
  for (const text of [address, `(${address})`, `${address}.`, `[x](${address})`, `see [x](${address} "t")).`]) {
    assert.deepEqual(inlines(text).filter((each) => each.type === "link").map((each) => each.address), [address], text);
  }
  assert.equal(inlines("(https://a.b/c)")[1].address, "https://a.b/c");
});

test("a table begins behind a line of text, and has as many columns as its divider", () => {
  assert.deepEqual(types("These:\n| a | b |\n|---|---|\n| 1 | 2 |\nend"), ["paragraph", "table", "paragraph"]);
  assert.deepEqual(types("- These:\n  | a |\n  |---|"), ["list"]);
  assert.deepEqual(parseMarkdown("- These:\n  | a |\n  |---|")[0].items[0].map((each) => each.type), ["paragraph", "table"]);
  assert.deepEqual(types("a | b\n---"), ["paragraph", "rule"]);
});

test("underscores emphasize words, and are left amid them", () => {
  const shown = (text) => inlines(text).map((each) => (each.type === "em" ? { em: each.children[0].text } : each.text));
  assert.deepEqual(shown("an _important_ word"), ["an ", { em: "important" }, " word"]);
  assert.deepEqual(shown("(_the snake_case name_)"), ["(", { em: "the snake_case name" }, ")"]);
  for (const text of ["snake_case_name", "für_alle_ Fälle", "__init__", "_ a _", "a_b_", "_open"]) assert.deepEqual(shown(text), [text]);
});

test("an image is no image, so that nothing is fetched", () => {
  const found = inlines("![x](https://a.b/pixel.png)");
  assert.deepEqual(found.map((each) => each.type), ["text", "link"]);
});

test("no text is lost, and hostile text ends soon", () => {
  const texts = ["**bold", "*a*b*", "`", "```", "[", "[a](", "\\*x\\*", "a*b*c", "<script>alert(1)</script>", "* ", "1.", "|", "|-|\n|-|", "> > > >"];
  for (const text of texts) assert.ok(JSON.stringify(parseMarkdown(`${text}\nend`)).includes("end"), text);
  const begun = performance.now();
  for (const piece of ["*", "[", "`", "**a", "> ", "- ", "|", "http://", "\\", "[a](", "*a ", "_a ", "_a", "http://(", "http://a(b", "[a](("]) parseMarkdown(piece.repeat(5000));
  assert.ok(performance.now() - begun < 5000);
});

test("CSV keeps what is quoted, and finds its separator", () => {
  assert.deepEqual(parseCsv('a,b\r\n"x, ""y""",2\n'), [["a", "b"], ['x, "y"', "2"]]);
  assert.deepEqual(parseCsv("a;b\n1;2"), [["a", "b"], ["1", "2"]]);
  assert.deepEqual(parseCsv('a\n"two\nlines"'), [["a"], ["two\nlines"]]);
  assert.deepEqual(parseCsv(""), []);
});

test("a list of objects is a table", () => {
  assert.deepEqual(tableOf([{ a: 1 }, { b: "x" }]), [["a", "b"], ["1", ""], ["", "x"]]);
  for (const value of [[], {}, [1], null]) assert.equal(tableOf(value), null);
});

test("numbers are said so that people read them", () => {
  assert.deepEqual([0.0123, 2.34, 90, 3700, 90000].map((each) => duration(each)), ["12 ms", "2.3 s", "1 min 30 s", "1 h 2 min", "1 d 1 h"]);
  assert.equal(argumentsLine({ a: "x", n: 2 }), 'a: "x", n: 2');
  assert.equal(brief("a".repeat(200), 10).length, 10);
  assert.equal(costOf({ m: { prompt: 1e6, candidates: 1e6 } }, { m: [1, 2] }), "$3.00");
  assert.equal(costOf({ m: { prompt: 1, candidates: 1 } }, {}), "");
});

test("a cost that leaves out a model says so", () => {
  const models = { m: { prompt: 1e6, candidates: 0 }, n: { prompt: 1, candidates: 0 } };
  assert.equal(costOf(models, { m: [1, 2] }), "at least $1.00");
  assert.equal(costOf(models, { m: [0, 2] }), "");
  assert.equal(costOf(models, { m: [1, 2], "*": [0, 0] }), "$1.00");
  assert.equal(costOf({ ...models, n: { prompt: 0, candidates: 0 } }, { m: [1, 2] }), "$1.00");
});

test("a time between two commits is said to be none of the call's own", () => {
  assert.deepEqual([took(2.04), took(2, 1), took(2, 2, true)], ["about 2.0 s", "about 2.0 s with 1 failed attempt", "at most 2.0 s with 2 failed attempts"]);
  assert.deepEqual([took(-0.1), took(null), took(undefined, 3)], ["", "", ""]); // clocks differ
});

test("of a total it is said how much of it is that of agents that ran as tools", () => {
  const usage = { calls: 2, total: 30, models: { m: { prompt: 1e6, candidates: 0 } } };
  assert.equal(shareOfTools(usage, {}), "including 30 tokens in agent tools");
  assert.equal(shareOfTools(usage, { m: [1, 2] }), "including 30 tokens, $1.00 in agent tools");
  assert.equal(shareOfTools({ calls: 2, total: 0, models: {} }, {}), "including 2 model calls in agent tools");
  assert.equal(shareOfTools({ calls: 0, total: 0, models: {} }, {}), "");
});

test("a price that is no plain number is told by its line", () => {
  const { prices, wrong } = readPrices("a 0.30 2\n\nb $0.30 2\n c 0,30 2 \n* 1 3\nd 1\ne -1 2");
  assert.deepEqual(prices, { a: [0.3, 2], "*": [1, 3] });
  assert.deepEqual(wrong, [[3, "b $0.30 2"], [4, "c 0,30 2"], [6, "d 1"], [7, "e -1 2"]]);
});
