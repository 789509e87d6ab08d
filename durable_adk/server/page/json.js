// Reads JSON without rounding integers. Pure.

/**
 * Read JSON. An integer that a number would round is kept as its text, which `JSON.stringify` writes as it was.
 *
 * Browsers without `JSON.rawJSON` (Chromium before 114, Firefox before 135, Safari before 18.4) round it.
 */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text); // there is none
  return JSON.parse(text, (_, value, context) => (typeof value === "number" ? exact(value, context?.source) : value));
}

/** The number of what was put into a field of numbers. */
export const numberOf = (text) => exact(Number(text), text);

/** Whether a value is an integer that is kept as its text. */
export const isExact = (value) => JSON.isRawJSON?.(value) ?? false;

/** The text of an integer that is kept so; any other value as it is. */
export const sourceOf = (value) => (isExact(value) ? value.rawJSON : value);

function exact(value, source) {
  const rounds = !Number.isSafeInteger(value) && /^-?\d+$/.test(source);
  return rounds && JSON.rawJSON ? JSON.rawJSON(String(BigInt(source))) : value;
}
