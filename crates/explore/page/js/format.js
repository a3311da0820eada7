// Numbers as text, the same everywhere.

/** A number with so many significant digits, with a true minus. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) {
    const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 1)).split("e");
    text = `${trim(mantissa)}e${Number(exponent)}`;
  } else {
    text = trim(value.toPrecision(digits));
    if (text.includes("e")) text = String(Math.round(value));
  }
  return text.replace(/^-/, "−").replace("e-", "e−");
}

/** A number with so many digits after the point. */
export const fixed = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "") : number(value));

/** A whole number with narrow spaces between thousands, at which no line breaks. */
export const count = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f").replace(/^-/, "−");

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

export const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
