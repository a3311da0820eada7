// Sentences: their words, and matrices of words against words.
import { ask } from "./ask.js";
import { heat } from "./chart.js";
import { group, label, rect, widest } from "./svg.js";

/** The words of sentences without spaces, as the server has cut them. */
const cuts = new Map();

/** The words of a sentence; of one that is not cut yet, what stands between spaces. */
export const split = (text) => cuts.get(text) ?? text.trim().split(/\s+/).filter(Boolean);

/** The words of a sentence, where Chinese is among them after the server has cut it; its refusal is an error. */
export async function cut(text) {
  if (/\p{Script=Han}/u.test(text) && !cuts.has(text)) cuts.set(text, (await ask("words", { text })).words);
  return split(text);
}

/** A word, cut where it would be too long for a label. */
export const shorten = (word, most = 10) => ([...word].length > most ? `${[...word].slice(0, most - 1).join("")}…` : word);

/** A colour for each word; the same one for the same word. */
export const looks = (words) => words.map((word) => words.indexOf(word) % 8);

/** Text in the colour of a series. */
export const coloured = (series, x, y, words, attributes = {}) => group({ class: `s${series}` }, label(x, y, words, { style: "fill: var(--c); font-weight: 600", ...attributes }));

/**
 * A matrix as shaded cells from (x, y) on, with names left of its rows and above its columns: lists of [name, series]. Names of
 * columns that are wider than a cell are set on end.
 */
export function map(values, { x, y, cell, rows, columns, low, high }) {
  const [height, width] = [values.length * cell, values[0].length * cell];
  const isOnEnd = onEnd(columns, cell);
  const top = ([name, series], index) => {
    const across = x + (index + 0.5) * cell;
    return isOnEnd ? coloured(series, 0, 4, name, { transform: `translate(${across} ${y - 6}) rotate(-90)` }) : coloured(series, across, y - 6, name, { anchor: "middle" });
  };
  return (
    heat(values, { x, y, width, height, low, high }) +
    rect(x, y, width, height, { fill: "none", class: "grid" }) +
    rows.map(([name, series], index) => coloured(series, x - 7, y + (index + 0.5) * cell + 4, name, { anchor: "end" })).join("") +
    columns.map(top).join("")
  );
}

/** Whether names are wider than the columns from one to the next; empty names take no room. */
function onEnd(columns, cell) {
  const every = Math.max(1, columns.findIndex(([name], column) => column > 0 && name));
  return widest(columns.map(([name]) => name), 12, 600) > every * cell - 4;
}

/** Pixels that names above columns take. */
export const head = (columns, cell) => (onEnd(columns, cell) ? widest(columns.map(([name]) => name), 12, 600) + 8 : 20);
