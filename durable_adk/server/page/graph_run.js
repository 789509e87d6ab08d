// Follows a run through its graph: which nodes run, wait or have ended. Knows no page and no network.
//
// The store has a node's outputs, questions and errors, but not its start, nor the end of one without output. Those
// follow from the graph, as its loop decides them: a node runs once all is there that it waits for, and one has ended
// if something behind it has begun.

const DEFAULT = "__DEFAULT__";
const MOST = 100000; // steps without an event: no graph takes as many

/** The names in the path of a node's run: `wf@1/a@2` is of `wf/a`. */
export function nodeOf(path) {
  return path
    .split("/")
    .map((part) => part.split("@")[0])
    .join("/");
}

/** The node that an event's id belongs to, also if the event was never stored; "" if to none. */
export function nodeOfId(id, root) {
  const names = [...id.matchAll(/\.([^.@~]+)@\d+/g)].map(([, name]) => name);
  return names.length ? [root, ...names].join("/") : "";
}

/** The path of the app's graph in a layout. */
export function rootOf(layout) {
  return parentOf(layout.nodes[0].path);
}

function parentOf(path) {
  return path.slice(0, path.lastIndexOf("/"));
}

/** The graphs of a layout by their paths, each with its nodes by name and the edges from each. */
export function graphsOf(layout) {
  const graphs = new Map();
  for (const { kind, path } of layout.nodes) {
    if (kind === "start") graphs.set(parentOf(path), { nodes: new Map(), out: new Map(), into: new Map(), window: null });
  }
  for (const node of layout.nodes) {
    const name = node.path.slice(node.path.lastIndexOf("/") + 1);
    graphs.get(parentOf(node.path))?.nodes.set(name, node);
    if (graphs.has(node.path)) graphs.get(node.path).window = node.window ?? null;
  }
  layout.edges.forEach((edge, index) => {
    const graph = graphs.get(parentOf(edge.source));
    if (!graph || edge.below) return;
    const [source, target] = [edge.source, edge.target].map((path) => path.slice(path.lastIndexOf("/") + 1));
    const known = { index, source, target, route: edge.route ?? null };
    graph.out.set(source, [...(graph.out.get(source) ?? []), known]);
    graph.into.set(target, [...(graph.into.get(target) ?? []), known]);
  });
  return graphs;
}

/**
 * What has become of each node.
 *
 * @param {Map} graphs as `graphsOf` returns them
 * @param {string} root the path of the app's graph
 * @param {object[]} events of the run, in order
 * @param {string?} status of the run
 * @returns {{nodes: Map, taken: Set}} by path `{status, runs, failures, asks, error, items, note}`, and the indexes of
 *     the edges that were taken. A status is idle, due, running, waiting, done, failed or cancelled.
 */
export function statesOf(graphs, root, events, status) {
  const nodes = new Map();
  const taken = new Set();
  for (const path of graphs.keys()) for (const node of graphs.get(path).nodes.values()) nodes.set(node.path, blank());
  const level = new Level({ graphs, nodes, taken }, root, `${root}@1`);
  for (const event of events) {
    if (event.author === "user") for (const part of event.content?.parts ?? []) level.answered(part.functionResponse?.id);
    else if (event.nodeInfo?.path?.startsWith(`${level.path}/`)) level.take(event, event.nodeInfo.path.split("/").slice(1));
  }
  level.settle();
  if (status === "paused") level.rest();
  if (status === "completed") level.finish();
  if (["failed", "cancelled", "abandoned"].includes(status)) level.stop(status === "failed");
  return { nodes, taken };
}

function blank() {
  return { status: "idle", runs: 0, failures: 0, asks: [], error: null, items: 0, note: "" };
}

/** One run of a graph. */
class Level {
  #all;
  #graph;
  #names; // the path without the numbers of runs
  #queue = new Map(); // node -> how many runs are due
  #running = new Map(); // node -> its run
  #ended = new Map(); // node -> its last run
  #begun = new Map(); // node -> how many runs have begun
  #arrived = new Map(); // join -> the nodes that have come to it
  #last = null; // the run of the event before

  constructor(all, names, path) {
    this.#all = all;
    this.#names = names;
    this.path = path;
    this.#graph = all.graphs.get(names);
    for (const node of this.#graph.nodes.values()) all.nodes.set(node.path, blank());
    this.#state("__START__").status = "done";
    this.#fire("__START__", null);
  }

  #state(name) {
    return this.#all.nodes.get(`${this.#names}/${name}`) ?? blank();
  }

  /** Take an event of a node's run, whose path below this graph is `parts`. */
  take(event, parts) {
    const [name, number] = [parts[0].split("@")[0], Number(parts[0].split("@")[1])];
    if (!this.#graph.nodes.has(name)) return; // another version of the graph
    const run = this.#runOf(name, number);
    if (this.#last !== run) this.settle();
    this.#last = run;
    const state = this.#state(name);
    const outputs = event.nodeInfo.outputFor ?? [];
    if (parts.length > 1 && run.inner) run.inner.take(event, parts.slice(1));
    else if (parts.length > 1 && outputs.includes([this.path, ...parts].join("/"))) state.items += 1;
    for (const id of event.longRunningToolIds ?? []) run.asks.add(id);
    if (event.errorCode) run.error = { type: event.errorCode, message: event.errorMessage ?? "" };
    if (event.errorCode && parts.length === 1) state.failures += 1;
    const route = parts.length === 1 ? (event.actions?.route ?? null) : null;
    if (route !== null) run.route = route;
    if (outputs.includes(run.path) || route !== null) run.hasEnded = true;
    this.#show(name, run);
  }

  /** A call has an answer. */
  answered(id) {
    if (!id) return;
    for (const [name, run] of this.#running) {
      run.asks.delete(id);
      run.inner?.answered(id);
      this.#show(name, run);
    }
  }

  /** End the runs whose last event was there. */
  settle() {
    for (const [name, run] of [...this.#running]) {
      run.inner?.settle();
      if (run.hasEnded) this.#end(name, run);
    }
  }

  /** All that runs has ended, but what waits for a person. */
  rest() {
    for (let step = 0; step < MOST; step += 1) {
      for (const run of this.#running.values()) run.inner?.rest();
      const found = [...this.#running].find(([, run]) => !isAsking(run));
      if (!found) return;
      this.#end(...found);
    }
  }

  finish() {
    for (const run of this.#running.values()) run.asks.clear();
    for (const run of this.#running.values()) run.inner?.finish();
    this.rest();
    for (const [name, arrived] of this.#arrived) {
      const missing = this.#sources(name).filter((source) => !arrived.has(source));
      this.#state(name).note = `Never ran: ${missing.join(", ")} did not lead here.`;
    }
    this.#state("__END__").status = "done";
  }

  /** The run has ended before its graph; `failed` if an error of it is why. */
  stop(failed) {
    for (const [name, run] of this.#running) {
      run.inner?.stop(failed);
      this.#state(name).status = failed && run.error ? "failed" : "cancelled";
      if (failed) this.#state(name).error = run.error;
    }
    for (const name of this.#queue.keys()) if (!this.#running.has(name)) this.#state(name).status = "cancelled";
  }

  /** The run of a node that an event is of; what must have happened before has. */
  #runOf(name, number) {
    const known = [this.#running.get(name), this.#ended.get(name)].find((run) => run?.number === number);
    if (known) return known;
    for (let step = 0; step < MOST && (this.#begun.get(name) ?? 0) < number; step += 1) {
      const isDue = this.#queue.has(name);
      if (isDue && !this.#running.has(name)) this.#begin(name);
      else {
        const before = isDue ? name : this.#leading(name)[0];
        if (before === undefined) break; // the graph was another one
        this.#end(before, this.#running.get(before));
      }
    }
    const run = this.#running.get(name);
    return run?.number === number ? run : this.#begin(name, number);
  }

  /** The nodes that run and lead to one, the nearest first. */
  #leading(name) {
    const found = [];
    const seen = new Set();
    for (let next = [name]; next.length; ) {
      const sources = next.flatMap((each) => (this.#graph.into.get(each) ?? []).map(({ source }) => source));
      next = sources.filter((each) => !seen.has(each) && seen.add(each));
      found.push(...next.filter((each) => this.#running.has(each) && !isAsking(this.#running.get(each))));
    }
    return found;
  }

  #begin(name, number = (this.#begun.get(name) ?? 0) + 1) {
    const left = (this.#queue.get(name) ?? 1) - 1;
    if (left > 0) this.#queue.set(name, left);
    else this.#queue.delete(name);
    const names = `${this.#names}/${name}`;
    const path = `${this.path}/${name}@${number}`;
    const inner = this.#all.graphs.has(names) ? new Level(this.#all, names, path) : null;
    const run = { number, path, inner, asks: new Set(), error: null, route: null, hasEnded: false };
    this.#begun.set(name, number);
    this.#running.set(name, run);
    Object.assign(this.#state(name), { runs: number, items: 0, note: "" });
    this.#show(name, run);
    return run;
  }

  #show(name, run) {
    const state = this.#state(name);
    if (this.#running.get(name) !== run) return;
    const asks = [...run.asks];
    Object.assign(state, { status: isAsking(run) ? "waiting" : "running", asks, error: run.error });
  }

  #end(name, run) {
    this.#running.delete(name);
    this.#ended.set(name, run);
    run.inner?.finish();
    const state = this.#state(name);
    Object.assign(state, { status: "done", asks: [], error: null });
    if (this.#graph.nodes.get(name).waitsForOutput && !run.hasEnded) {
      this.#start(); // it is not done until it is triggered again
      return;
    }
    const fired = this.#fire(name, run.route);
    const edges = this.#graph.out.get(name) ?? [];
    if (!fired && edges.length) state.note = run.route === null ? "It gave no route, and no edge is without one." : `No edge has its route ${JSON.stringify(run.route)}.`;
  }

  /** Have the edges of a node fire that do; return how many. */
  #fire(name, route) {
    const edges = this.#graph.out.get(name) ?? [];
    const wanted = listOf(route).filter((each) => each !== "");
    const matched = edges.map((edge) => edge.route !== DEFAULT && listOf(edge.route).some((each) => wanted.some((one) => isSame(each, one))));
    const fired = edges.filter((edge, at) => matched[at] || edge.route === null || (edge.route === DEFAULT && !matched.includes(true)));
    for (const { index, target } of fired) {
      this.#all.taken.add(index);
      if (target === "__END__") continue;
      if (this.#graph.nodes.get(target).joins) this.#arrive(target, name);
      else this.#due(target);
    }
    this.#start();
    return fired.length;
  }

  #arrive(join, source) {
    const arrived = (this.#arrived.get(join) ?? new Set()).add(source);
    this.#arrived.set(join, arrived);
    if (!this.#sources(join).every((each) => arrived.has(each))) return;
    this.#arrived.delete(join);
    this.#due(join);
  }

  #sources(join) {
    return (this.#graph.into.get(join) ?? []).map(({ source }) => source);
  }

  #due(name) {
    this.#queue.set(name, (this.#queue.get(name) ?? 0) + 1);
    if (!this.#running.has(name)) this.#state(name).status = "due";
  }

  #start() {
    const { window } = this.#graph;
    for (const name of [...this.#queue.keys()]) {
      const busy = [...this.#running.values()].filter((run) => !isAsking(run)).length;
      if (window > 0 && busy >= window) return;
      if (!this.#running.has(name)) this.#begin(name);
    }
  }

  get asks() {
    return [...this.#running.values()].some(isAsking);
  }
}

function isAsking(run) {
  return run.asks.size > 0 || Boolean(run.inner?.asks);
}

function listOf(route) {
  if (route === null || route === undefined) return [];
  return Array.isArray(route) ? route : [route];
}

/** Whether two routes are equal as in Python, where true is 1. */
function isSame(one, other) {
  const plain = (route) => (typeof route === "boolean" ? Number(route) : route);
  return plain(one) === plain(other);
}
