// Turns the items of a session's feed into runs and their entries. Knows no page and no network.

import { brief } from "./format.js";

export const REQUEST_CONFIRMATION = "adk_request_confirmation";
export const REQUEST_CREDENTIAL = "adk_request_credential";
export const REQUEST_INPUT = "adk_request_input";
export const HAND_OVER = "transfer_to_agent";
export const ABORTED = "INVOCATION_ABORTED";
export const CLOSED = new Set(["completed", "failed", "cancelled", "abandoned"]);

/** What is known of a session: committed events by sequence number, answers under way, statuses. */
export class Conversation {
  /** Sequence number of the last committed event that was added. */
  lastSeq = 0;

  #events = new Map(); // seq -> event
  #order = []; // [seq, event], in order
  #rewinds = []; // [seq, event] of those that rewind
  #ids = new Set(); // of committed events
  #runs = new Map(); // invocation id -> run
  #partials = new Map(); // event id -> answer under way
  #attempts = new Map(); // invocation id -> attempts without a result

  /** Add an item of the feed; return whether anything changed. Adding it again changes nothing. */
  add(item) {
    if (item.type === "event") return this.#commit(item.seq, item.event);
    if (item.type === "partial") return this.#chunk(item);
    if (item.type === "status") return this.#status(item);
    return false;
  }

  /** Say which attempts of a run ended without a result. */
  setAttempts(invocationId, attempts) {
    if (JSON.stringify(attempts) === JSON.stringify(this.#attempts.get(invocationId) ?? [])) return;
    this.#attempts.set(invocationId, attempts);
    const run = this.#runs.get(invocationId);
    if (run) run.entries = null;
  }

  /** The runs in the order of their first events, each with its entries. */
  runs() {
    const gone = this.#rewound();
    return [...this.#runs.values()]
      .sort((one, other) => one.order - other.order)
      .map((run) => {
        run.entries ??= entriesOf(
          run.seqs.map((seq) => [seq, this.#events.get(seq)]),
          this.#attempts.get(run.invocationId) ?? [],
          this.#ids,
          CLOSED.has(run.status),
          (seq) => this.#timeOfOther(run.invocationId, seq),
        );
        run.usage ??= usageOf(run.seqs.map((seq) => this.#events.get(seq)));
        const partials = [...this.#partials.values()].filter(
          (each) => each.invocationId === run.invocationId,
        );
        const told = run.error && run.entries.some((each) => tells(each, run.error));
        return {
          invocationId: run.invocationId,
          status: run.status,
          error: told ? null : run.error, // else an entry shows it
          rewound: gone.has(run.invocationId),
          usage: run.usage,
          committed: run.entries, // the same array as long as nothing of it is another
          entries: [...run.entries, ...grouped(partials.map(partialEntry), run.entries.at(-1))],
        };
      });
  }

  /**
   * Whether the server knows an invocation of an id, so that it told its status. Rewinds, changes of the state by others
   * and events that were stored without a run have ids of which it knows nothing.
   */
  isInvocation(invocationId) {
    return Boolean(this.#runs.get(invocationId)?.status);
  }

  /** The committed events of an invocation, in order. */
  eventsOf(invocationId) {
    return (this.#runs.get(invocationId)?.seqs ?? []).map((seq) => this.#events.get(seq));
  }

  /** Whether an invocation has called any tool. */
  hasCalls(invocationId) {
    const seqs = this.#runs.get(invocationId)?.seqs ?? [];
    return seqs.some((seq) => this.#events.get(seq).content?.parts?.some((part) => part.functionCall));
  }

  /** The beginning of the first text that a user wrote. */
  opening() {
    for (const [, { author, content }] of this.events()) {
      const part = author === "user" && content?.parts?.find(({ text }) => text?.trim());
      if (part) return brief(part.text, 80);
    }
    return "";
  }

  /** All committed events in order, as `[seq, event]`; not to be changed. */
  events() {
    return this.#order;
  }

  #commit(seq, event) {
    if (this.#events.has(seq)) return false;
    this.#events.set(seq, event);
    const at = seq > this.lastSeq ? this.#order.length : this.#order.findIndex(([each]) => each > seq);
    this.#order.splice(at, 0, [seq, event]);
    if (event.actions?.rewindBeforeInvocationId) this.#rewinds.push([seq, event]);
    this.#ids.add(event.id);
    this.#partials.delete(event.id);
    this.lastSeq = Math.max(this.lastSeq, seq);
    const run = this.#run(event.invocationId ?? "", seq);
    const last = run.seqs.at(-1);
    run.seqs.push(seq);
    if (last !== undefined && last > seq) run.seqs.sort((one, other) => one - other);
    run.entries = null;
    run.usage = null;
    return true;
  }

  #chunk({ invocationId, eventId, attempt, position, chunks = 1, event }) {
    if (this.#ids.has(eventId)) return false;
    this.#run(invocationId, Number.MAX_SAFE_INTEGER);
    let answer = this.#partials.get(eventId);
    if (answer && attempt < answer.attempt) return false;
    if (!answer || attempt > answer.attempt) {
      answer = { invocationId, eventId, attempt, next: 0, missing: false };
      Object.assign(answer, { text: "", thought: "", author: event.author, branch: event.branch ?? "", version: 0, starts: new Map() });
      this.#partials.set(eventId, answer);
    }
    if (position < answer.next) return false;
    const first = position - chunks + 1;
    answer.missing ||= first > answer.next;
    answer.next = position + 1;
    answer.version += 1;
    const start = answer.starts.get(first); // lengths; of chunks that came one by one before
    if (start) Object.assign(answer, { text: answer.text.slice(0, start[0]), thought: answer.thought.slice(0, start[1]) });
    else answer.starts.set(first, [answer.text.length, answer.thought.length]);
    for (const part of event.content?.parts ?? []) {
      if (part.text) answer[part.thought ? "thought" : "text"] += part.text;
    }
    return true;
  }

  #status({ invocationId, status, error }) {
    const run = this.#run(invocationId, Number.MAX_SAFE_INTEGER);
    const changed = run.status !== status;
    if (changed) run.entries = null;
    run.status = status;
    run.error = error ?? null;
    if (CLOSED.has(status)) {
      for (const [id, answer] of this.#partials) {
        if (answer.invocationId === invocationId) this.#partials.delete(id);
      }
    }
    return changed;
  }

  #run(invocationId, seq) {
    let run = this.#runs.get(invocationId);
    if (!run) {
      run = { invocationId, status: null, error: null, seqs: [], order: seq, entries: null, usage: null };
      this.#runs.set(invocationId, run);
    }
    run.order = Math.min(run.order, seq);
    return run;
  }

  /** The time of the event before one, if another run made it, after which this one had its turn; else 0. */
  #timeOfOther(invocationId, seq) {
    const before = this.#events.get(seq - 1);
    return before && before.invocationId !== invocationId ? before.timestamp : 0;
  }

  /** The invocations that a rewind took back: from the one it names to the rewind itself. */
  #rewound() {
    const gone = new Set();
    for (const [seq, event] of this.#rewinds) {
      const from = this.#runs.get(event.actions.rewindBeforeInvocationId)?.order;
      if (!from) continue;
      for (const run of this.#runs.values()) {
        if (run.order >= from && run.order < seq) gone.add(run.invocationId);
      }
    }
    return gone;
  }
}

/** The entries of a run: messages, calls with their responses, requests, changes, dead attempts. */
function entriesOf(events, attempts, committed, closed, timeOfOther) {
  const entries = [];
  const calls = new Map();
  const waiting = new Map();
  const ofCalls = [];
  for (const attempt of attempts) {
    if (attempt.outcome === "completed") continue; // its event shows it
    if (attempt.callId) {
      ofCalls.push(attempt);
      continue;
    }
    const list = waiting.get(attempt.eventId) ?? [];
    waiting.set(attempt.eventId, [...list, attempt]);
  }
  const times = new AskingTimes(timeOfOther);
  for (const [seq, event] of events) {
    const failed = waiting.get(event.id) ?? [];
    for (const attempt of failed) entries.push(attemptEntry(attempt, event.branch));
    waiting.delete(event.id);
    addEvent(entries, calls, seq, event, { asked: times.of(seq, event), failedModelAttempts: failed.length });
  }
  for (const [id, list] of waiting) {
    if (!committed.has(id)) for (const attempt of list) insertAttempt(entries, attempt);
  }
  ofCalls.sort((one, other) => other.attempt - one.attempt); // each is put in front of the later ones
  for (const attempt of ofCalls) {
    const call = entries.indexOf(calls.get(attempt.callId));
    if (call < 0) insertAttempt(entries, attempt);
    else {
      entries.splice(call + 1, 0, attemptEntry(attempt, entries[call].branch));
      entries[call].failedToolAttempts += 1;
    }
  }
  for (const [index, entry] of entries.entries()) {
    if (entry.kind === "error") {
      const error = { type: entry.code, message: entry.message };
      entry.repeats = entries.slice(0, index).some((each) => each.kind !== "error" && tells(each, error));
    }
    const asked = entry.kind === "request" && calls.get(entry.about?.id ?? entry.args.functionCallId);
    if (asked) waitFor(asked, entry);
  }
  for (const entry of closed ? entries : []) if (["running", "waiting"].includes(entry.state)) entry.state = "stopped";
  return grouped(entries, null);
}

/** Entries that say where those of a ParallelAgent begin: `enters` has its name, below those round it, else nothing. */
function grouped(entries, before) {
  let group = groupOf(before);
  for (const entry of entries) {
    const own = groupOf(entry);
    entry.enters = own === group ? [] : own.split(".").filter((name, at, all) => name && name !== all[at - 1]);
    group = own;
  }
  return entries;
}

/** A branch has the names of a ParallelAgent and of its child, and again of those within the child. */
function groupOf(entry) {
  return entry?.branch?.split(".").slice(0, -1).join(".") ?? "";
}

/** Say of a call that it waits for a person, or runs since it was answered. */
function waitFor(call, request) {
  const answer = request.responses.at(-1);
  const asks = call.responses.at(-1); // so far it only says that somebody is asked
  if (answer) call.since = answer.time;
  if (!answer) call.state = "waiting";
  else if (asks && asks.seq < answer.seq) call.state = "running";
}

/** An attempt that no event came of stands before what was committed after it. */
function insertAttempt(entries, attempt) {
  const entry = attemptEntry(attempt);
  const at = entries.findIndex((each) => (entry.time ? each.time > entry.time : each.kind === "error"));
  entries.splice(at < 0 ? entries.length : at, 0, entry);
}

/** Whether an entry shows an error: `{type, message}`. */
function tells(entry, error) {
  const said = error?.message || error?.type;
  const failed = entry.state === "failed" && entry.responses.at(-1).response.error;
  const { type, message } = { error: { type: entry.code, message: entry.message }, attempt: entry.attempt?.error, call: { message: failed } }[entry.kind] ?? {};
  return Boolean(said) && `${type ?? ""}: ${message ?? ""}`.includes(said);
}

/**
 * When models were asked, as far as commits tell: after what they answer was stored. What other branches stored in
 * parallel says nothing of it; a run that waited for its turn had it after the last event of the run before.
 */
class AskingTimes {
  #timeOfOther;
  #branches = new Map(); // branch -> {seq, event, time} of its last event; the time is the latest

  constructor(timeOfOther) {
    this.#timeOfOther = timeOfOther;
  }

  /** The time after which an event's model was asked; null: no commit tells. The events of a run come in order. */
  of(seq, event) {
    const branch = event.branch ?? "";
    const related = [...this.#branches].filter(([other]) => isWithin(branch, other) || isWithin(other, branch)).map(([, each]) => each);
    const last = related.reduce((one, other) => (one && one.seq > other.seq ? one : other), null);
    const others = [seq, ...(last ? [last.seq] : [])].map(this.#timeOfOther);
    const time = Math.max(0, ...related.map((each) => each.time), ...others);
    this.#branches.set(branch, { seq, event, time: Math.max(time, event.timestamp) });
    // A model may give several answers to one request.
    const again = last && last.event.author === event.author && isAnswer(last.event);
    return !last || again ? null : time;
  }
}

function isWithin(branch, outer) {
  return !outer || branch === outer || branch.startsWith(`${outer}.`);
}

function addEvent(entries, calls, seq, event, asking) {
  const parts = event.content?.parts ?? [];
  const base = {
    seq,
    event,
    author: event.author,
    role: event.author === "user" ? "user" : "agent",
    time: event.timestamp,
    branch: event.branch ?? "",
    ...asking,
  };
  base.changed = Object.keys(event.actions?.stateDelta ?? {}); // shown at the event's first entry
  base.answers = base.role === "agent" && isAnswer(event); // so is which model answered, and how long it took
  const before = entries.length;
  const shown = parts.filter((part) => !part.functionCall && !part.functionResponse);
  if (shown.length) {
    entries.push({ ...base, kind: "message", key: `${seq}`, parts: shown });
    base.changed = [];
    base.answers = false;
  }
  for (const [index, part] of parts.entries()) {
    if (part.functionCall) {
      const entry = callEntry(base, part.functionCall, index);
      calls.set(part.functionCall.id, entry);
      entries.push(entry);
      base.answers = false;
    }
    if (part.functionResponse) respond(entries, calls, base, part.functionResponse, index);
    if (part.functionCall || part.functionResponse) base.changed = [];
  }
  if (event.output !== undefined && !shown.length) {
    entries.push({ ...base, kind: "output", key: `${seq}.output`, output: event.output });
    base.changed = [];
  }
  if (event.errorCode || event.errorMessage) {
    entries.push({
      ...base,
      kind: "error",
      key: `${seq}.error`,
      code: event.errorCode ?? "",
      message: event.errorMessage ?? "",
    });
  }
  const handsOver = parts.some((part) => part.functionResponse?.name === HAND_OVER);
  addActions(entries, base, event.actions ?? {}, {
    hasContent: entries.length > before || parts.length > 0,
    handsOver, // its call says so
  });
}

/** Whether a model made an event. Not all models say which they are, or what they count. */
function isAnswer({ content, finishReason, modelVersion, usageMetadata }) {
  const called = ({ functionCall }) => functionCall && ![REQUEST_CONFIRMATION, REQUEST_CREDENTIAL].includes(functionCall.name) && !isQuestion(functionCall);
  return Boolean(finishReason || modelVersion || usageMetadata || content?.parts?.some(called));
}

/** What a node of a graph asks a person; nothing for other calls. */
export function questionOf(call) {
  return isQuestion(call) ? (call.args.message ?? "") : null;
}

/** Whether a node of a graph asks a person, rather than a model calls a tool of this name. */
function isQuestion({ name, args }) {
  return name === REQUEST_INPUT && args?.interruptId !== undefined;
}

function callEntry(base, call, index) {
  const args = call.args ?? {};
  const entry = { ...base, id: call.id, name: call.name, args, responses: [], state: "running", failedToolAttempts: 0 };
  entry.key = `${base.seq}.call.${index}`;
  entry.kind = "call";
  const long = (base.event.longRunningToolIds ?? []).includes(call.id);
  if (long) entry.state = "waiting";
  if (call.name === REQUEST_CONFIRMATION || call.name === REQUEST_CREDENTIAL) {
    entry.kind = "request";
    entry.state = "waiting";
    entry.about = args.originalFunctionCall ?? null;
    entry.hint = args.toolConfirmation?.hint ?? "";
  }
  return entry;
}

function respond(entries, calls, base, response, index) {
  const call = calls.get(response.id);
  const { seq, event, author, time, changed } = base;
  const given = { seq, event, author, time, changed };
  given.response = response.response ?? {};
  if (!call) {
    const key = `${base.seq}.response.${index}`;
    entries.push({ ...base, ...given, kind: "response", key, id: response.id, name: response.name });
    return;
  }
  call.responses.push(given);
  call.state = stateAfter(call, given);
}

function stateAfter(call, given) {
  if (call.kind === "request" && call.name === REQUEST_CONFIRMATION) {
    const said = wrapped(given.response);
    if (typeof said.confirmed === "boolean") return said.confirmed ? "approved" : "rejected";
    return "answered";
  }
  if (call.kind === "request") return "answered";
  const long = (call.event.longRunningToolIds ?? []).includes(call.id);
  const settled = given.event.customMetadata?.adk_settled;
  const final = settled === true || (Array.isArray(settled) && settled.includes(call.id));
  if (long && given.author !== "user" && !final && !given.event.id?.endsWith(".sealed")) {
    return "waiting"; // a preliminary response: somebody's answer comes later
  }
  return isError(given.response) ? "failed" : "done";
}

/** ADK's own page sends its answer as JSON text below `response`. */
function wrapped(response) {
  if (typeof response.response !== "string" || Object.keys(response).length !== 1) return response;
  try {
    return JSON.parse(response.response) ?? {};
  } catch {
    return response;
  }
}

export function isError(response) {
  return typeof response?.error === "string" && response.error !== "";
}

function addActions(entries, base, actions, { hasContent, handsOver }) {
  for (const [name, version] of Object.entries(actions.artifactDelta ?? {})) {
    entries.push({ ...base, kind: "artifact", key: `${base.seq}.artifact.${name}`, name, version });
  }
  const only = (kind, more) => entries.push({ ...base, kind, key: `${base.seq}.${kind}`, ...more });
  const { transferToAgent, rewindBeforeInvocationId, compaction } = actions;
  if (transferToAgent && !handsOver) only("transfer", { to: transferToAgent });
  if (rewindBeforeInvocationId) only("rewind", { before: rewindBeforeInvocationId });
  if (compaction) only("compaction", { summary: compaction.compactedContent });
  if (base.changed.length && !hasContent) only("change", {});
}

function attemptEntry(attempt, branch = "") {
  const key = [attempt.eventId, ...(attempt.callId ? [attempt.callId] : []), "attempt", attempt.attempt].join(".");
  return { kind: "attempt", key, time: attempt.startTime, author: attempt.agent ?? "", branch, attempt };
}

function partialEntry(answer) {
  return { kind: "partial", key: `partial.${answer.eventId}`, ...answer };
}

/** The model calls of events, and the tokens that they say they cost, by model. */
export function usageOf(events) {
  const usage = { calls: 0, prompt: 0, candidates: 0, total: 0, models: {} };
  for (const event of events) {
    const counts = event.usageMetadata;
    if (!counts && !event.modelVersion) continue;
    usage.calls += 1;
    if (!counts) continue;
    const prompt = counts.promptTokenCount ?? 0;
    const candidates = (counts.candidatesTokenCount ?? 0) + (counts.thoughtsTokenCount ?? 0);
    usage.prompt += prompt;
    usage.candidates += candidates;
    usage.total += counts.totalTokenCount ?? prompt + candidates;
    const name = event.modelVersion ?? "";
    const model = (usage.models[name] ??= { prompt: 0, candidates: 0 });
    model.prompt += prompt;
    model.candidates += candidates;
  }
  return usage;
}

/** Several usages in one. */
export function sumOf(usages) {
  const sum = usageOf([]);
  for (const { models, ...counts } of usages) {
    for (const [name, number] of Object.entries(counts)) sum[name] += number;
    for (const [name, { prompt, candidates }] of Object.entries(models)) {
      const model = (sum.models[name] ??= { prompt: 0, candidates: 0 });
      model.prompt += prompt;
      model.candidates += candidates;
    }
  }
  return sum;
}

/** The history of each key of the state: `[{key, value, changes: [{seq, author, time, value}]}]`. */
export function stateHistory(events) {
  const keys = new Map();
  for (const [seq, event] of events) {
    for (const [key, value] of Object.entries(event.actions?.stateDelta ?? {})) {
      const known = keys.get(key) ?? [];
      known.push({ seq, author: event.author, time: event.timestamp, value });
      keys.set(key, known);
    }
  }
  return [...keys]
    .map(([key, changes]) => ({ key, value: changes.at(-1).value, changes }))
    .sort((one, other) => one.key.localeCompare(other.key));
}

/** The artifacts that events saved: `[{name, versions: [{version, seq, time}]}]`, newest last. */
export function artifactsOf(events) {
  const names = new Map();
  for (const [seq, event] of events) {
    for (const [name, version] of Object.entries(event.actions?.artifactDelta ?? {})) {
      const known = names.get(name) ?? [];
      known.push({ version, seq, time: event.timestamp, author: event.author });
      names.set(name, known);
    }
  }
  return [...names].map(([name, versions]) => ({ name, versions }));
}
