// Shows the entries of a run: one line each, which opens to all that is known of it.

import { argumentList } from "./answer.js";
import { mediaOf } from "./media.js";
import { button, h, icon } from "./dom.js";
import { ABORTED, HAND_OVER, questionOf } from "./conversation.js";
import { argumentsLine, brief, clock, count, duration, exact, pretty, took, unwrapped } from "./format.js";
import { prose } from "./prose.js";
import { requestOf } from "./request.js";

const MEASURED = "Measured between two commits";

/** What decides how an entry looks; an element is made anew only if it is another. */
export function looksOf(entry, context) {
  const pending = context.pending.get(entry.id)?.callId ?? "";
  const open = context.open.has(entry.key);
  const { kind, state, responses, version, repeats, tells, enters, failedModelAttempts, failedToolAttempts } = entry;
  const children = context.childrenOf(entry.id).length;
  return [kind, state, responses?.length, version, open, pending, repeats, tells, enters, failedModelAttempts, failedToolAttempts, children, context.caller()].join("|");
}

/**
 * The element of an entry. `context`: key, caller() (its id), writer() (who wrote the user's messages), open (keys), pending
 * (by call id), card(pending), childrenOf(call id) (elements), inside (of which call's agent it is; else nothing),
 * temporalUrl(), showArtifact(name, version), toggle(entry).
 */
export function entryElement(entry, context) {
  const { inside = "" } = context; // it has numbers and keys of its own
  const show = KINDS[entry.kind];
  const { body, mark = "", name = "" } = show(entry, context);
  const opens = entry.kind !== "partial";
  const open = context.open.has(entry.key);
  const time = h("time", { title: exact(entry.time) }, entry.tells && clock(entry.time));
  const region = `details-${inside}${entry.key}`.replace(/[^\w.-]/g, "_");
  const more =
    opens &&
    h(
      "button",
      {
        type: "button",
        class: "more",
        "aria-expanded": String(open),
        "aria-controls": region,
        "aria-label": `Details of ${name || entry.kind}${entry.seq ? `, #${entry.seq}` : ""}`,
        onclick: () => context.toggle(entry),
      },
      entry.seq && h("span", { class: "seq", title: "sequence number in the session" }, `#${entry.seq}`),
      icon("chevron"),
    );
  return h(
    "li",
    { class: `entry ${entry.kind} ${entry.role ?? ""} ${mark} ${within(entry)}`, "data-key": entry.key, "data-seq": inside ? null : entry.seq, tabindex: -1 },
    h("div", { class: "gutter" }, time),
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("div", { class: "content" }, entry.enters.length > 0 && entering(entry), body, open && h("div", { class: "details", id: region }, details(entry, context))),
    more,
  );
}

/** How deep in parallel branches an entry is; each ParallelAgent adds its name and its child's. */
function within({ branch }) {
  return branch ? `within-${Math.min(Math.ceil(branch.split(".").length / 2), 3)}` : "";
}

function entering({ enters }) {
  return h("p", { class: "enters" }, h("span", { class: "author" }, enters.join(" › ")), " in parallel");
}

const KINDS = {
  message(entry, { writer }) {
    const author = entry.role === "user" ? writer() : entry.author;
    return { name: `message of ${entry.author}`, body: [by({ ...entry, author }, changes(entry)), entry.parts.map(part)] };
  },

  output(entry) {
    return { name: `output of ${pathOf(entry) || entry.author}`, body: [by(entry, changes(entry)), typeof entry.output === "string" ? prose(entry.output) : json(entry.output)] };
  },

  partial(entry) {
    const again = entry.attempt > 1 && h("span", { class: "facts" }, `attempt ${entry.attempt}`);
    const by = h("p", { class: "by" }, h("span", { class: "author" }, entry.author), h("span", { class: "writing" }, "writing"), again);
    const thought = entry.thought && h("details", { class: "thought", open: !entry.text }, h("summary", null, "Thinking"), prose(entry.thought));
    const gap = entry.missing && h("p", { class: "quiet" }, "Part of the text is missing until the whole answer is stored.");
    return { body: [by, thought, entry.text ? prose(entry.text) : null, gap] };
  },

  call(entry, context) {
    const last = entry.responses.at(-1);
    if (entry.name === HAND_OVER && entry.state === "done") return KINDS.transfer({ ...entry, to: entry.args.agent_name });
    const hasEnded = last && !["waiting", "stopped"].includes(entry.state);
    const parallel = last?.event.content.parts.filter((each) => each.functionResponse).length > 1;
    const time = hasEnded ? took(last.time - (entry.since ?? entry.time), entry.failedToolAttempts, parallel) : "";
    const answerer = last && answererOf(last, context);
    const question = questionOf(entry);
    const line = h(
      "p",
      { class: "line" },
      question === null && h("span", { class: "name mono" }, entry.name),
      question === null && Object.keys(entry.args).length > 0 && h("span", { class: "args mono" }, argumentsLine(entry.args)),
      question !== null && (question || "Asks for an answer"),
      time && h("span", { class: "facts", title: MEASURED }, time),
      answerer && h("span", { class: "facts" }, `answered ${answerer}`),
      changes(last ?? entry),
    );
    const pending = context.pending.get(entry.id);
    return {
      name: entry.name,
      mark: entry.state,
      body: [(entry.answers || pathOf(entry)) && by(entry), line, context.childrenOf(entry.id), outcome(entry), pending && context.card(pending)],
    };
  },

  request(entry, context) {
    const pending = context.pending.get(entry.id);
    if (pending) return { name: "request", mark: "waiting", body: context.card(pending) };
    const about = entry.about?.name ?? "";
    const said = {
      waiting: `Waiting for a decision on ${about || "a credential"}`,
      stopped: `Stopped before a decision on ${about || "a credential"}`,
      approved: `Approved ${about}`,
      rejected: `Rejected ${about}`,
      answered: `Answered ${about}`,
    }[entry.state];
    const last = entry.responses.at(-1);
    const waited = last && [answererOf(last, context), `after ${duration(last.time - entry.time)}`].filter(Boolean).join(" ");
    const line = h("p", { class: "line" }, said, " ", waited && h("span", { class: "facts" }, waited));
    return { name: said, mark: entry.state, body: line };
  },

  response(entry, context) {
    const returned = ["returned", answererOf(entry, context)].filter(Boolean).join(" ");
    const line = h("p", { class: "line" }, h("span", { class: "name mono" }, entry.name), h("span", { class: "facts" }, returned), changes(entry));
    return { name: entry.name, body: [line, h("p", { class: "result mono" }, brief(unwrapped(entry.response), 160))] };
  },

  artifact(entry, context) {
    const opener = h("button", { type: "button", class: "chip", onclick: () => context.showArtifact(entry.name, entry.version) }, icon("file"), entry.name, h("span", { class: "facts" }, `version ${entry.version}`));
    return { name: entry.name, body: h("p", { class: "line" }, "Saved ", opener) };
  },

  attempt({ attempt }) {
    const what = attempt.outcome === "lost" ? "was lost with its worker" : attempt.outcome;
    const cancelled = attempt.outcome === "cancelled"; // somebody wanted that
    const took = attempt.startTime && attempt.endTime ? duration(attempt.endTime - attempt.startTime) : "";
    const tokens = attempt.usage?.totalTokens ?? attempt.usage?.totalTokenCount;
    const facts = [attempt.model ?? attempt.tool, attempt.worker && `on ${attempt.worker}`, took && `after ${took}`, tokens && count(tokens, "token")];
    const line = h("p", { class: "line" }, h("strong", null, `Attempt ${attempt.attempt} ${what}`), h("span", { class: "facts" }, facts.filter(Boolean).join(" · ")));
    return { name: "attempt", mark: cancelled ? "" : "failed", body: [line, !cancelled && attempt.error && h("p", { class: "result" }, errorText(attempt.error))] };
  },

  error(entry) {
    if (entry.code === ABORTED) return { name: "end", body: h("p", { class: "line" }, entry.message) };
    const said = entry.repeats ? h("p", { class: "line" }, "The run failed.") : h("div", { class: "failure" }, h("strong", null, entry.code), " ", entry.message);
    return { name: "error", mark: "failed", body: [(entry.answers || pathOf(entry)) && by(entry), said] };
  },

  transfer: (entry) => ({ name: "transfer", body: [entry.answers && by(entry), h("p", { class: "line" }, h("strong", null, entry.author), " hands over to ", h("strong", null, entry.to))] }),
  rewind: (entry) => ({ name: "rewind", body: h("p", { class: "line" }, "The session was rewound to before a run. What came after is no longer part of the conversation.") }),
  compaction: (entry) => ({ name: "summary", body: [h("p", { class: "line" }, "Earlier events are summarized for the model."), (entry.summary?.parts ?? []).map(part)] }),
  change: (entry) => ({ name: "state change", body: h("p", { class: "line" }, `${entry.author} changed `, changes(entry)) }),
};

/** Who an entry is of, and which model answered with how many tokens after how long. */
function by({ role, author, branch, event, answers, asked, failedModelAttempts, time }, ...more) {
  const usage = event.usageMetadata?.totalTokenCount;
  const passed = answers && asked ? took(time - asked, failedModelAttempts) : "";
  const facts = role === "user" ? [] : [event.modelVersion, usage && count(usage, "token"), passed].filter(Boolean);
  const said = facts.length > 0 && h("span", { class: "facts", title: passed && MEASURED }, facts.join(" · "));
  const child = branch?.split(".").at(-1); // of a ParallelAgent; the author may run within it
  const path = pathOf({ event }); // it names the branch, too
  const outer = !path && role !== "user" && child && child !== author && h("span", { class: "facts" }, `${child} ›`);
  const node = path && h("span", { class: "facts mono", title: "path of the node" }, path);
  return h("p", { class: "by" }, outer, h("span", { class: "author" }, author), node, said, more);
}

/** The node of a graph that an event is from; empty if it is from none. */
function pathOf({ event }) {
  return event?.nodeInfo?.path ?? "";
}

/** Who has given an answer, as the server knows them: `by olga`; empty if it does not say. */
function answererOf({ event }, { caller }) {
  const { adk_answered_by: who } = event.customMetadata ?? {};
  if (!who) return "";
  if (typeof who.user !== "string") return "by its URL";
  return who.user === caller() ? "by you" : `by ${who.user}`;
}

/** An address that may be linked to; null if it may not. */
export function webAddress(address) {
  return /^https?:\/\//i.test(address ?? "") ? address : null;
}

export function errorText(error) {
  if (typeof error === "string") return error;
  return [error?.type, error?.message].filter(Boolean).join(": ") || pretty(error);
}

function outcome(entry) {
  const last = entry.responses.at(-1);
  const open = { running: "has not returned yet", waiting: last && "is waiting for a decision", stopped: "was stopped" }[entry.state];
  if (open && (!last || last.response.error)) return h("p", { class: "result quiet" }, open);
  if (!last) return null;
  const result = unwrapped(last.response);
  if (result === null) return null;
  const text = entry.state === "failed" ? last.response.error : brief(result, 200);
  return h("p", { class: `result ${typeof result === "string" ? "" : "mono"}` }, text);
}

function changes({ changed = [] }) {
  if (!changed.length) return null;
  return h("span", { class: "keys", title: "changed in the state" }, changed.map((key) => h("span", { class: "key mono" }, key)));
}

function part(each) {
  if (each.thought && each.text) {
    return h("details", { class: "thought" }, h("summary", null, "Thought"), prose(each.text));
  }
  if (each.text) return prose(each.text);
  if (each.inlineData) return mediaOf(each.inlineData, each.inlineData.displayName ?? "attachment");
  if (each.fileData) return h("p", { class: "chip" }, icon("file"), each.fileData.displayName ?? each.fileData.fileUri);
  if (each.executableCode) return h("pre", { class: "code", tabindex: 0 }, h("code", null, each.executableCode.code));
  if (each.codeExecutionResult) return h("pre", { class: "code result", tabindex: 0 }, h("code", null, each.codeExecutionResult.output ?? ""));
  if (!Object.keys(each).length || each.text === "") return null;
  return json(each);
}

export function json(value) {
  return h("pre", { class: "code", tabindex: 0 }, h("code", null, pretty(value)));
}

/** What an entry opens to. */
function details(entry, context) {
  if (entry.attempt && !entry.event) return section("Attempt", argumentList(timed(entry.attempt)));
  const last = entry.responses?.at(-1) ?? entry;
  const temporal = webAddress(context.temporalUrl());
  const delta = last.event?.actions?.stateDelta ?? {};
  return [
    entry.answers && section("Request", requestOf(entry.event, context.key)),
    Object.keys(entry.args ?? {}).length > 0 && section("Arguments", json(entry.args)),
    (entry.responses ?? []).map((each, index, all) => section(all.length > 1 ? `Response ${index + 1}` : "Response", json(each.response))),
    entry.kind === "message" && entry.role === "agent" && section("Response", json(entry.event.content)),
    Object.keys(delta).length > 0 && section("State change", argumentList(delta)),
    section("Commit", argumentList(facts(entry))),
    ...(entry.responses ?? []).filter((each) => each.seq !== entry.seq).map((each) => section("Response commit", argumentList(facts(each)))),
    section("Event", raw(last.event)),
    temporal && h("p", null, h("a", { href: temporal, target: "_blank", rel: "noopener noreferrer" }, "Workflow in Temporal ", icon("out"))),
  ];
}

/** An attempt with its times as people read them. */
function timed({ startTime, endTime, ...more }) {
  return { ...more, ...(startTime && { startTime: exact(startTime) }), ...(endTime && { endTime: exact(endTime) }) };
}

function facts({ seq, event, time, author }) {
  const usage = event.usageMetadata;
  const all = {
    "sequence number": seq,
    event: event.id,
    author,
    node: event.nodeInfo?.path,
    branch: event.branch,
    time: exact(time),
    invocation: event.invocationId,
    model: event.modelVersion,
    "finish reason": event.finishReason,
    tokens: usage && `${usage.promptTokenCount ?? 0} in, ${usage.candidatesTokenCount ?? 0} out${usage.thoughtsTokenCount ? `, ${usage.thoughtsTokenCount} for thinking` : ""}${usage.cachedContentTokenCount ? `, ${usage.cachedContentTokenCount} cached` : ""}`,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

function section(title, ...content) {
  return h("section", null, h("h3", null, title), content);
}

function raw(event) {
  const text = JSON.stringify(event, null, 2);
  // Browsers have no clipboard for a page that came over plain HTTP from elsewhere.
  const copy = navigator.clipboard && button("Copy", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  }, { kind: "small" });
  return h("details", { class: "raw" }, h("summary", null, "As JSON"), copy, json(text));
}
