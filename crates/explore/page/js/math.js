// Formulas as MathML, which browsers typeset themselves.
import { escape, number } from "./format.js";

/** An identifier, italic if it is one letter. */
export const i = (name) => `<mi>${escape(name)}</mi>`;
/** A number, or text that stands for one. */
export const n = (value, digits) => `<mn>${typeof value === "number" ? number(value, digits) : escape(value)}</mn>`;
/** An operator. */
export const o = (operator) => `<mo>${escape(operator)}</mo>`;
export const text = (words) => `<mtext>${escape(words).replaceAll(" ", "\u00a0")}</mtext>`;
export const row = (...parts) => `<mrow>${parts.join("")}</mrow>`;
export const sub = (base, index) => `<msub>${base}${index}</msub>`;
export const sup = (base, index) => `<msup>${base}${index}</msup>`;
export const subsup = (base, low, high) => `<msubsup>${base}${low}${high}</msubsup>`;
export const frac = (top, bottom) => `<mfrac>${top}${bottom}</mfrac>`;
export const root = (inside) => `<msqrt>${inside}</msqrt>`;
export const under = (base, below) => `<munder>${base}${below}</munder>`;
export const sum = (below, above) => (above ? `<munderover>${o("∑")}${below}${above}</munderover>` : under(o("∑"), below));
export const paren = (...parts) => row(o("("), ...parts, o(")"));
export const angle = (...parts) => row(o("⟨"), ...parts, o("⟩"));
/** Rows of cells in round brackets, which the style sheet draws: few fonts have tall ones. */
export const matrix = (rows) =>
  `<mtable class="matrix">${rows.map((cells) => `<mtr>${cells.map((cell) => `<mtd>${cell}</mtd>`).join("")}</mtr>`).join("")}</mtable>`;
/** Lines one below the other, aligned at their second cell. */
export const lines = (...rows) =>
  `<mtable class="lines">${rows.map((cells) => `<mtr>${cells.map((cell) => `<mtd>${cell}</mtd>`).join("")}</mtr>`).join("")}</mtable>`;
/** A part in the colour of a series, so that formula and figure are read together. */
export const look = (series, ...parts) => `<mrow class="s${series} look">${parts.join("")}</mrow>`;
