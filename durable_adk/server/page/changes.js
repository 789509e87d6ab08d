// Follows the changes of all runs and sessions, by one connection for all tabs of a browser.

import { address, token } from "./api.js";
import { Stream } from "./stream.js";

/** Milliseconds without a word after which the tab that reads counts as asleep. It tells of each ping, and of a dead connection. */
const SILENCE = 60000;

/**
 * Follow them for as long as the page is there. A browser has six connections to a server over
 * HTTP/1.1, so the tabs of a user share one: the tab that was shown last reads, and tells the others.
 * If it falls silent, one that is in sight reads instead.
 *
 * @param {function()} onChange is told that something has changed
 * @param {function(object)} onState takes the states of the stream; see `Stream`
 */
export async function followChanges(onChange, onState) {
  if (!navigator.locks) return alone(onChange, onState); // the page came over plain HTTP from elsewhere
  const name = `durable-adk.changes ${address([])} ${await digest(token.get())}`;
  const channel = new BroadcastChannel(name);
  let stream = null;
  let last = { state: "connecting" };
  let claims = new AbortController();
  let silence = null; // timer

  const take = ({ state, why, asks, pings }) => {
    if (asks) stream && channel.postMessage(last);
    else if (state) onState((last = { state, why }));
    else if (!pings) onChange();
  };
  const tell = (message) => {
    take(message);
    channel.postMessage(message);
  };
  const lead = () => {
    stream = new Stream(["changes"], {
      onItem: () => tell({}),
      onState: ({ state, why }) => tell({ state, why }),
      onPing: () => tell({ pings: true }),
      whileHidden: true,
    });
    stream.run();
    return stream;
  };
  const read = () => document.hidden || stream || claim(true);
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => last.state === "refused" || read(), SILENCE);
  };
  /** Read as soon as no other tab does; or have it stop, because it may be asleep. */
  const claim = async (steal) => {
    claims.abort();
    const { signal } = (claims = new AbortController());
    let led = null;
    const hold = () => {
      led = lead();
      return new Promise(() => {}); // until the tab is closed, or another one steals it
    };
    try {
      await navigator.locks.request(name, steal ? { steal } : { signal }, hold);
    } catch (error) {
      led?.stop();
      if (stream === led) stream = null;
      listen();
      if (error.name === "AbortError") {
        if (!signal.aborted) claim(false);
      } else if (!stream) {
        channel.close();
        stream = alone(onChange, onState);
      }
    }
  };

  channel.onmessage = ({ data }) => {
    if (!data.asks) listen();
    take(data);
  };
  channel.postMessage({ asks: true });
  document.addEventListener("visibilitychange", read);
  addEventListener("online", () => stream?.hurry());
  return claim(!document.hidden);
}

function alone(onChange, onState) {
  const stream = new Stream(["changes"], { onItem: () => onChange(), onState });
  addEventListener("online", () => stream.hurry());
  stream.run();
  return stream;
}

/** Tells users apart; the token itself would be told to whoever lists the locks. */
async function digest(text) {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(bytes), (each) => each.toString(16).padStart(2, "0")).join("");
}
