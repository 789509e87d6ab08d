// The state of a session: what it is, beside what the events of the session made of it. Pure.

/**
 * Each key with its value, its changes by events, and whether something else has changed it since.
 *
 * @param {object[]} history each key that events changed: `{key, value, changes}`
 * @param {object} session its state as it is, and when its last event was stored
 */
export function stateOf(history, { state, lastUpdateTime }) {
  const known = new Set(history.map((each) => each.key));
  const given = Object.entries(state).filter(([key]) => !known.has(key));
  const changed = history.map((each) => {
    const last = each.changes.at(-1);
    if (last.time > lastUpdateTime) return { ...each, elsewhere: false }; // after the state was read
    const value = state[each.key] ?? null;
    return { ...each, value, elsewhere: sorted(value) !== sorted(last.value) };
  });
  return [...changed, ...given.map(([key, value]) => ({ key, value, changes: [], elsewhere: false }))];
}

/** The JSON of a value; stores order the keys of objects as they like. */
function sorted(value) {
  const inOrder = (_, each) => (each && typeof each === "object" && !Array.isArray(each) ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1))) : each);
  return JSON.stringify(value, inOrder) ?? "null";
}
