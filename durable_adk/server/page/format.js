// Says numbers, times and values as text. Pure.

const DAY = 86400;
/** Making one takes longer than many uses of it. */
const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hour12: false });
const DATE = new Intl.DateTimeFormat([], { day: "numeric", month: "short" });

/** `14:03`, or with the day if that is another one than today's. */
export function clock(seconds, now = Date.now() / 1000) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  const time = TIME.format(at);
  if (new Date(now * 1000).toDateString() === at.toDateString()) return time;
  return `${DATE.format(at)} ${time}`;
}

export function exact(seconds) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  const pad = (number, size = 2) => String(number).padStart(size, "0");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return `${day} ${time}.${pad(at.getMilliseconds(), 3)}`;
}

/** `now`, `5 min`, `3 h`, `2 d`: how long something is ago. */
export function ago(seconds, now = Date.now() / 1000) {
  if (!seconds) return "";
  const passed = now - seconds;
  if (passed < 45) return "now";
  if (passed < 3600) return `${Math.max(1, Math.round(passed / 60))} min`;
  if (passed < DAY) return `${Math.round(passed / 3600)} h`;
  if (passed < 7 * DAY) return `${Math.round(passed / DAY)} d`;
  return DATE.format(new Date(seconds * 1000));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !(seconds >= 0)) return "";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < DAY) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / DAY)} d ${Math.round((seconds % DAY) / 3600)} h`;
}

/**
 * How long something took that was measured between two commits: with what was done around it, failed attempts before
 * it, and waiting for a worker. Of parallel calls, which end with one commit, only how long each took at most.
 */
export function took(seconds, failed = 0, parallel = false) {
  const time = duration(seconds);
  if (!time) return "";
  return `${parallel ? "at most" : "about"} ${time}${failed ? ` with ${count(failed, "failed attempt")}` : ""}`;
}

export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** A value on one line, cut after `most` characters. */
export function brief(value, most = 90) {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** Arguments as they would stand in a call: `city: "Paris", nights: 2`. */
export function argumentsLine(args, most = 110) {
  const words = Object.entries(args ?? {}).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return brief(words.join(", "), most);
}

/** The result without the wrapping that a function's plain value gets. */
export function unwrapped(response) {
  const keys = Object.keys(response ?? {});
  return keys.length === 1 && keys[0] === "result" ? response.result : response;
}

export function pretty(value) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** The price of tokens as text: `prices` has dollars per million tokens, `{model: [prompt, candidates]}`. "" if no model has one. */
export function costOf(models, prices) {
  let cost = 0;
  let [known, missing] = [false, false];
  for (const [name, { prompt, candidates }] of Object.entries(models)) {
    const price = prices[name] ?? prices["*"];
    if (!price) {
      missing ||= prompt + candidates > 0;
      continue;
    }
    known = true;
    cost += (prompt * price[0] + candidates * price[1]) / 1e6;
  }
  if (!known || (missing && !cost)) return "";
  return missing ? `at least ${money(cost)}` : money(cost);
}

/** What models have cost, fact by fact; those that are empty are unknown or nothing. */
export function usageFacts({ calls, total, models }, prices) {
  return [calls && count(calls, "model call"), total && count(total, "token"), costOf(models, prices)];
}

/** How much of a total is that of agents that ran as tools. */
export function shareOfTools(usage, prices) {
  const [calls, tokens, cost] = usageFacts(usage, prices);
  if (!calls) return "";
  return `including ${[tokens || calls, cost].filter(Boolean).join(", ")} in agent tools`;
}

export function money(dollars) {
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(5)}` : `$${dollars.toFixed(2)}`;
}
