// What a person chose, kept in this browser: theme, app and user, prices of tokens.

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`durable-adk.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(`durable-adk.${name}`, JSON.stringify(value));
  } catch {
    // not kept, then
  }
}

const kept = (name, otherwise) => ({ get: () => read(name, otherwise), set: (value) => write(name, value) });

/** Dollars per million tokens: `{model: [prompt, answer]}`; `*` stands for all others. */
export const prices = kept("prices", {});
export const place = kept("place", { app: "", user: "" });
export const theme = kept("theme", "");

/** Have the page look as chosen; without a choice, as the system does. */
export function applyTheme() {
  const chosen = theme.get();
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

export function isDark() {
  const chosen = theme.get();
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
