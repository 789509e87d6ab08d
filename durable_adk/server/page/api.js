// Talks to the server that this page came from.

import { parse } from "./json.js";

const HERE = new URL(".", location.href);
const TOKEN = "durable-adk.token";
/** Milliseconds until a server that has not begun to answer counts as gone; to read, and to send something. */
const WAITS = { GET: 30000, others: 120000 };

/** The server refused, or does not answer (`status` 0). */
export class RequestFailed extends Error {
  constructor(message, status, type = "") {
    super(message);
    this.status = status;
    this.type = type;
  }
}

/** The address of a path of segments, each escaped, and a query without empty values. */
export function address(segments, query = {}) {
  const url = new URL(segments.map(encodeURIComponent).join("/"), HERE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

export function sessionPath(key, ...more) {
  return ["apps", key.appName, "users", key.userId, "sessions", key.sessionId, ...more];
}

/** The bearer token, for servers that ask for one; kept as long as the tab is open. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
};

export function headersWith(more = {}) {
  const known = token.get();
  return known ? { authorization: `Bearer ${known}`, ...more } : more;
}

/** Send a request and return the JSON of the answer; raise `RequestFailed` otherwise. */
export async function request(method, segments, { query, body, headers, signal } = {}) {
  const sent = headersWith({ accept: "application/json", ...headers });
  if (body !== undefined) sent["content-type"] = "application/json";
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), WAITS[method] ?? WAITS.others);
  if (signal?.aborted) late.abort();
  signal?.addEventListener("abort", () => late.abort(), { once: true });
  const options = { method, headers: sent, body: payload, signal: late.signal, cache: "no-store" };
  let response;
  try {
    response = await fetch(address(segments, query), options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestFailed("The server does not answer.", 0);
  } finally {
    clearTimeout(timer);
  }
  if (!response.ok) throw await refusal(response);
  const text = await response.text();
  return text ? parse(text) : null;
}

export const get = (segments, query, more) => request("GET", segments, { query, ...more });
export const post = (segments, body, more) => request("POST", segments, { body, ...more });

/** The query that names a session. */
export const inSession = ({ appName, userId, sessionId }) => ({ app_name: appName, user_id: userId, session_id: sessionId });

/** What the server says of an invocation, or of a part of it. Another session may have one of the same id. */
export const getInvocation = (key, id, ...more) => get(["invocations", id, ...more], inSession(key));

/** The events of an invocation behind one, as items of a stream. */
export const getEvents = (key, id, after) => get(["invocations", id, "events"], { ...inSession(key), after });

/** Do something to an invocation of a session. */
export const postInvocation = (key, id, path, body, more) => post(["invocations", id, path], body, { query: inSession(key), ...more });

export async function refusal(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // not JSON: a proxy's page, say
  }
  const { message, type } = said.error ?? {};
  const detail = typeof said.detail === "string" ? said.detail : "";
  const text = message || detail || `The server answered ${response.status}.`;
  if (response.status === 401) dispatchEvent(new CustomEvent("durable-adk:unauthorized", { detail: text }));
  return new RequestFailed(text, response.status, type);
}

/** A random key, also where the page came over plain HTTP and `randomUUID` is not there. */
export function newKey() {
  const numbers = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(numbers, (each) => each.toString(16).padStart(2, "0")).join("");
}

const PATIENCE = [500, 1000, 2000, 4000, 8000];

/** Start an invocation once; see `once`. */
export const startOnce = (body, key, said) => once((more) => post(["invocations"], body, more), key, said);

/** Hand a message to an invocation of a session once; see `once`. */
export const steerOnce = (session, id, message, key, said) => once((more) => postInvocation(session, id, "steer", { message }, more), key, said);

/**
 * Have an effect once: a request that gets no answer is sent again under the same key.
 *
 * @param {function(object): Promise} send sends the request with the given headers
 * @param {function(string)} said told that it is being tried again
 */
async function once(send, key, said) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await send({ headers: { "idempotency-key": key } });
    } catch (error) {
      const passing = error.status === 0 || error.status === 503 || error.status === 429;
      if (!passing || attempt >= 20) throw error;
      said("The server does not answer. Sending again…");
      const wait = PATIENCE[Math.min(attempt, PATIENCE.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}
