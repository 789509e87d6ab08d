// A call that waits for a person: what it asks, and the ways to answer it.

import { postInvocation } from "./api.js";
import { age, announce, button, failure, fill, h, icon } from "./dom.js";
import { exact, pretty } from "./format.js";
import { formOf } from "./form.js";
import { draftOf } from "./preferences.js";
import { fieldOf, schemaOf } from "./schema.js";

/** What a tool's result is put into if it says nothing of its own. */
const RESULT = { type: "object", properties: { result: { type: "string", minLength: 1 } }, required: ["result"] };

const ASKS = {
  confirmation: "Approve",
  long_running: "Answer",
  input: "Answer",
  credential: "Sign in",
};

/** What happens at a deadline, by what the server says of it. */
const AT_DEADLINE = {
  approve: (time) => `Approved automatically on ${time} if nobody answers.`,
  reject: (time) => `Rejected automatically on ${time} if nobody answers.`,
  tell: (time) => `The agent continues without an answer on ${time}.`,
  fail: (time) => `The run fails on ${time} if nobody answers.`,
  unknown: (time) => `Decided automatically on ${time} if nobody answers.`,
};

/**
 * A card for a pending call. It shows the outcome in place, and calls `done` after an answer, with
 * the server's reason if it was refused because the call is answered or gone.
 *
 * Its element has `approve()` and `reject()` for the keyboard.
 */
export function answerCard(pending, { done = () => {}, place = null } = {}) {
  const name = pending.kind === "input" ? pending.author : pending.name; // the call of a question has the same name for all
  const label = `${ASKS[pending.kind]} ${name}`;
  const head = h(
    "header",
    null,
    h("span", { class: "ask" }, ASKS[pending.kind]),
    h("h2", { class: "mono" }, name),
    age(pending.requestedAt),
  );
  const hint = pending.hint && h("p", { class: "hint" }, pending.hint);
  const deadline = pending.deadline && h("p", { class: "deadline" }, AT_DEADLINE[pending.onDeadline ?? "unknown"](exact(pending.deadline).slice(0, 16)));
  const card = h("article", { class: `answer ${pending.kind}`, "aria-label": label, tabindex: -1, "data-call": pending.callId }, head, place, hint, deadline);
  const draft = draftOf(pending.appName, pending.userId, pending.sessionId, pending.invocationId, pending.callId);
  const answered = (why) => {
    if (!why) draft.set(null);
    done(why);
  };
  const send = sender(card, pending, answered);
  card.append((BODIES[pending.kind] ?? BODIES.long_running)(pending, send, card, draft));
  return card;
}

/** Sends an answer, once; what comes of it is said in the card. */
function sender(card, pending, done) {
  const status = h("div", { class: "outcome", "aria-live": "polite" });
  let busy = false;
  return async (answer, said) => {
    if (busy) return;
    busy = true;
    card.append(status);
    fill(status, "Sending…");
    card.classList.add("busy");
    try {
      await postInvocation(pending, pending.invocationId, "answers", { callId: pending.callId, ...answer });
      leave(card);
      settle(card, said);
      done();
    } catch (error) {
      fill(status, failure(error));
      if (error.status === 409 || error.status === 404) {
        leave(card);
        done(error.message); // it may wait no more
      }
    } finally {
      busy = false;
      card.classList.remove("busy");
    }
  };
}

/** Choose what comes after a card that is done with, if the card has the focus: else nothing would have it. */
function leave(card) {
  if (!card.contains(document.activeElement)) return;
  const around = card.closest(".cards, .run");
  const open = [...(around?.querySelectorAll(".answer:not(.settled)") ?? [])];
  const at = open.indexOf(card);
  const next = open[at + 1] ?? open[at - 1] ?? card.closest(".entry") ?? document.querySelector("main h1");
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

function settle(card, said) {
  card.classList.add("settled");
  for (const each of card.querySelectorAll("button, input, textarea, select")) each.disabled = true;
  fill(card.querySelector(".outcome"), icon("check"), said);
  announce(said);
}

const BODIES = {
  confirmation(pending, send, card, draft) {
    const payload = pending.editable ? formOf(fieldOf(schemaOf(pending.payload)), pending.payload, draft) : null;
    card.approve = () => {
      const answer = { confirmed: true };
      if (payload) {
        const read = payload.read();
        if (!read) return;
        answer.payload = read.value;
      }
      send(answer, "Approved.");
    };
    card.reject = () => send({ confirmed: false }, "Rejected.");
    return h(
      "div",
      { class: "body" },
      argumentList(pending.arguments ?? {}),
      payload && h("h3", null, "Fill in"),
      payload?.element,
      h(
        "div",
        { class: "actions" },
        button("Approve", card.approve, { kind: "primary", "aria-keyshortcuts": "a" }),
        button("Reject", card.reject, { kind: "danger", "aria-keyshortcuts": "r" }),
      ),
    );
  },

  long_running(pending, send, card, draft) {
    const asks = pending.schema?.properties || pending.schema?.type !== "object" ? pending.schema : null;
    const answer = pending.kind === "input" && onlyAnswer(asks);
    if (answer?.type === "boolean") return yesOrNo(pending, send, card);
    if (answer && !answer.title) answer.title = "Answer";
    const isWritten = pending.schema?.additionalProperties || draft.get()?.of === JSON.stringify(fieldOf({}));
    const place = h("div");
    let form;
    const ask = (schema, other) => {
      form = formOf(fieldOf(schema), undefined, draft);
      fill(place, form.element, other);
    };
    const askText = () => ask(RESULT, button("Answer with JSON", askJson, { kind: "quiet-button" }));
    const askJson = () => ask({}, button("Answer with text", askText, { kind: "quiet-button" }));
    if (asks) ask(asks);
    else (isWritten ? askJson : askText)();
    card.approve = () => {
      const read = form.read();
      if (!read) return;
      const isObject = typeof read.value === "object" && read.value !== null && !Array.isArray(read.value);
      send({ response: isObject ? read.value : { result: read.value } }, "Answered.");
    };
    return h(
      "div",
      { class: "body" },
      (pending.kind !== "input" || pending.arguments?.payload !== undefined) && argumentList(pending.arguments ?? {}),
      place,
      h("div", { class: "actions" }, button("Send answer", card.approve, { kind: "primary" })),
    );
  },

  credential(pending, send) {
    const config = pending.authConfig ?? {};
    const oauth = config.exchangedAuthCredential?.oauth2;
    const url = /^https?:\/\//i.test(oauth?.authUri ?? "") ? oauth.authUri : null;
    const command = h("code", null, `durable-adk credential ${pending.callId.slice(0, 16)}`);
    if (!url) {
      return h("div", { class: "body" }, h("p", null, "The tool needs a credential. Enter it on the command line, where it is not shown: ", command));
    }
    const back = h("input", { type: "url", id: `back-${pending.sessionId}-${pending.callId}`, placeholder: "https://…", autocomplete: "off" });
    const answer = () => {
      const exchanged = { ...config.exchangedAuthCredential, oauth2: { ...oauth, authResponseUri: back.value } };
      if (back.value) send({ response: { ...config, exchangedAuthCredential: exchanged } }, "Sent.");
    };
    return h(
      "div",
      { class: "body" },
      h("p", null, h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Sign in"), ", then paste the address that you were sent back to. Or run: ", command),
      h("div", { class: "field" }, h("label", { for: back.id }, "Address"), back),
      h("div", { class: "actions" }, button("Send", answer, { kind: "primary" })),
    );
  },
};

/** The schema of a question's answer, if the schema of the response has it alone; else nothing. */
function onlyAnswer(schema) {
  const names = Object.keys(schema?.properties ?? {});
  return names.length === 1 && names[0] === "result" ? schema.properties.result : null;
}

function yesOrNo(pending, send, card) {
  card.approve = () => send({ response: { result: true } }, "Answered yes.");
  card.reject = () => send({ response: { result: false } }, "Answered no.");
  const buttons = [button("Yes", card.approve, { kind: "primary", "aria-keyshortcuts": "a" }), button("No", card.reject, { "aria-keyshortcuts": "r" })];
  const about = pending.arguments?.payload !== undefined && argumentList(pending.arguments);
  return h("div", { class: "body" }, about, h("div", { class: "actions" }, buttons));
}

/** The arguments of a call, one a row. */
export function argumentList(args) {
  const entries = Object.entries(args);
  if (!entries.length) return h("p", { class: "quiet" }, "No arguments.");
  return h(
    "dl",
    { class: "arguments" },
    entries.map(([key, value]) => [h("dt", null, key), h("dd", { class: typeof value === "string" ? "" : "mono" }, pretty(value))]),
  );
}
