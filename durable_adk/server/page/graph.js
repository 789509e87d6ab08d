// The graph of an app, with what has become of its nodes in a run; a node opens to its entries.

import { errorText } from "./entries.js";
import { EntryList } from "./entry_list.js";
import { fill, h, svg } from "./dom.js";
import { count } from "./format.js";
import { graphsOf, nodeOf, nodeOfId, rootOf, statesOf } from "./graph_run.js";

const STATUS = {
  idle: "not reached",
  due: "waits to start",
  running: "running",
  waiting: "waits for a person",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
};
/** Agents that calls ran as tools: the timeline shows their steps. */
const NO_CHILDREN = new Map();

export class GraphPanel {
  element = h("div", { class: "graph-panel" });
  #layout;
  #graphs;
  #root;
  #list;
  #run = null; // the id of the run that is shown; null: the newest
  #chosen = null; // the path of the node that is open
  #looks = "";
  #ids = "";
  #nodes = new Map(); // path -> its element and what is written in it
  #edges = [];
  #picker = h("select", { "aria-label": "Run", onchange: () => this.#pick() });
  #drawing = h("div", { class: "graph-drawing", role: "region", "aria-label": "Graph", tabindex: 0 });
  #about = h("div");
  #details = h("section", { class: "graph-details", "aria-label": "Details of the node", hidden: true });
  #redraw;

  /**
   * @param {object} layout as the server gives it
   * @param {object} context what `EntryList` takes
   * @param {function()} changed called when the panel must be drawn again
   */
  constructor(layout, context, changed) {
    this.#layout = layout;
    this.#graphs = graphsOf(layout);
    this.#root = rootOf(layout);
    this.#redraw = () => {
      this.#looks = "";
      changed();
    };
    this.#list = new EntryList({ ...context, inside: "graph-" }, this.#redraw);
    fill(this.#drawing, this.#make());
    fill(this.#details, this.#about, this.#list.element);
    const legend = Object.entries(STATUS).map(([name, text]) => h("li", { class: `node-${name}` }, h("span", { class: "swatch", "aria-hidden": "true" }), text));
    fill(this.element, h("div", { class: "graph-head" }, this.#picker, h("ul", { class: "legend", "aria-label": "Colours" }, legend)), this.#drawing, this.#details);
  }

  refresh() {} // it is drawn from what the timeline reads

  /**
   * @param {object[]} runs as `Conversation` has them
   * @param {function(string): object[]} eventsOf returns a run's events
   * @param {Map} pending the calls that wait
   */
  draw(runs, eventsOf, pending) {
    this.#drawPicker(runs);
    const run = runs.find(({ invocationId }) => invocationId === this.#run) ?? runs.at(-1);
    const looks = JSON.stringify([run?.invocationId, run?.status, run?.entries.length, run?.committed.at(-1)?.seq, this.#chosen, [...pending.keys()]]);
    if (looks === this.#looks) return;
    this.#looks = looks;
    const { nodes, taken } = run ? statesOf(this.#graphs, this.#root, eventsOf(run.invocationId), run.status) : { nodes: new Map(), taken: new Set() };
    for (const [path, { element, label, facts, says }] of this.#nodes) {
      const state = nodes.get(path);
      const status = state?.status ?? "idle";
      element.setAttribute("class", element.dataset.kind + ` node-${status}`);
      const words = wordsOf(state);
      element.setAttribute("aria-label", [label, words || facts].filter(Boolean).join(" "));
      element.setAttribute("aria-pressed", String(path === this.#chosen));
      if (says) says.textContent = words || facts;
    }
    this.#edges.forEach((edge, index) => edge.classList.toggle("taken", taken.has(index)));
    this.#drawDetails(run, nodes, pending);
  }

  #drawPicker(runs) {
    const ids = runs.map(({ invocationId }) => invocationId).join();
    if (ids === this.#ids) return;
    this.#ids = ids;
    fill(this.#picker, h("option", { value: "" }, "Newest run"), runs.slice(0, -1).map(({ invocationId }, index) => h("option", { value: invocationId }, `Run ${index + 1}`)));
    this.#picker.value = this.#run ?? "";
    this.#picker.hidden = runs.length < 2;
  }

  #pick() {
    this.#run = this.#picker.value || null;
    this.#redraw();
  }

  #drawDetails(run, nodes, pending) {
    this.#details.hidden = this.#chosen === null;
    if (this.#chosen === null) return;
    const { label, facts } = this.#nodes.get(this.#chosen);
    const state = nodes.get(this.#chosen);
    const own = (entry) => this.#isOf(entry, this.#chosen);
    const [entries, committed] = [run?.entries ?? [], run?.committed ?? []].map((all) => all.filter(own));
    this.#list.draw({ ...run, entries, committed }, new Map(pending), NO_CHILDREN);
    const about = [facts, wordsOf(state), state?.note].filter(Boolean);
    const head = h("header", null, h("h2", null, label), h("p", { class: "facts" }, about.join(" · ")), state?.error && h("p", { class: "failure" }, errorText(state.error)));
    const none = entries.length === 0 && h("p", { class: "quiet" }, "No events yet.");
    fill(this.#about, head, none);
  }

  #isOf({ event, attempt }, path) {
    const of = event ? nodeOf(event.nodeInfo?.path ?? "") : nodeOfId(attempt?.eventId ?? "", this.#root);
    return of === path || of.startsWith(`${path}/`);
  }

  #choose(path) {
    this.#chosen = this.#chosen === path ? null : path;
    this.#redraw();
    this.#details.scrollIntoView?.({ block: "nearest" });
  }

  // --- the drawing, made once ---

  #make() {
    const { width, height, nodes, edges } = this.#layout;
    const groups = nodes.filter(isGroup).map((node) => this.#node(node));
    this.#edges = edges.map((edge) => svg("path", { class: `edge ${edge.below ? "below" : ""}`, d: `M${edge.points.map(({ x, y }) => `${x} ${y}`).join("L")}`, "marker-end": "url(#graph-tip)" }));
    const labels = edges.map(({ label, labelAt: at }) => at && svg("text", { class: "edge-label", x: at.x, y: at.y }, label));
    const others = nodes.filter((node) => !isGroup(node)).map((node) => this.#node(node));
    const tip = svg("marker", { id: "graph-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "tip", d: "M0 0L8 4L0 8z" }));
    this.#nodes = new Map([...this.#nodes].sort(([, one], [, other]) => one.y - other.y || one.x - other.x)); // as one reads
    const [first] = this.#nodes.values();
    first?.element.setAttribute("tabindex", "0");
    const label = `Graph of ${this.#root}`;
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label }, svg("defs", null, tip), groups, this.#edges, others, labels);
  }

  #node(node) {
    const { path, kind, label, facts, x, y, width, height } = node;
    const isEnd = ["start", "end"].includes(kind);
    const middle = x + width / 2;
    const top = isGroup(node) ? y + 22 : y + height / 2 - (isEnd ? 0 : 8);
    const says = isEnd ? null : svg("text", { class: "says", x: middle, y: top + 16 }, facts);
    const kinds = `graph-node ${kind} ${node.joins ? "joins" : ""}`;
    const shown = [shapeOf(node), svg("text", { x: middle, y: top }, shortened(label)), " ", says]; // a blank between words
    if (isEnd) return svg("g", { class: kinds, "aria-hidden": "true" }, shown);
    const listeners = { onclick: () => this.#choose(path), onkeydown: (event) => this.#key(event, path) };
    const element = svg("g", { class: kinds, "data-kind": kinds, "data-path": path, role: "button", tabindex: -1, ...listeners }, shown);
    this.#nodes.set(path, { element, label, facts, says, x, y });
    return element;
  }

  /** Arrows go from node to node, so that the drawing is one stop of the Tab key. */
  #key(event, path) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#choose(path);
    }
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...this.#nodes.values()].map(({ element }) => element);
    const next = all[Math.min(Math.max(all.indexOf(event.currentTarget) + step, 0), all.length - 1)];
    for (const each of all) each.setAttribute("tabindex", each === next ? "0" : "-1");
    next.focus();
  }
}

function isGroup({ kind }) {
  return kind === "workflow";
}

function shapeOf(node) {
  const { x, y, width, height, kind } = node;
  if (!node.decides || isGroup(node)) {
    return svg("rect", { class: "shape", x, y, width, height, rx: ["start", "end"].includes(kind) ? height / 2 : 7 });
  }
  const [left, right, bottom] = [x + 14, x + width - 14, y + height];
  const points = [[x, y + height / 2], [left, y], [right, y], [x + width, y + height / 2], [right, bottom], [left, bottom]];
  return svg("polygon", { class: "shape", points: points.join(" ") });
}

function shortened(text) {
  return text.length <= 40 ? text : `${text.slice(0, 39)}…`;
}

/** What has become of a node, in words; "" if nothing has, yet. */
function wordsOf(state) {
  if (!state || state.status === "idle") return "";
  const { status, runs, failures, items } = state;
  const more = [runs > 1 && `run ${runs}`, items && count(items, "item"), failures && count(failures, "failed attempt")];
  return [STATUS[status], ...more].filter(Boolean).join(", ");
}
