// Charts: axes with round ticks, lines, and shaded matrices.
import { number } from "./format.js";
import { group, label, line, measure, polyline, px, rect, tag } from "./svg.js";

/**
 * A frame with two axes. `x` and `y` are { domain: [low, high], log, label, ticks }; the rest is in pixels.
 * Gives x(value), y(value), x.invert(pixel), y.invert(pixel), the edges, and `axes`, the frame drawn.
 */
export function frame({ x, y, width, height, left = 52, right = 12, top = 26, bottom = 40 }) {
  const edges = { left, right: width - right, top, bottom: height - bottom };
  const sx = scale(x, edges.left, edges.right);
  const sy = scale(y, edges.bottom, edges.top);
  const across = x.ticks ?? ticks(x.domain, x.log, Math.max(2, Math.floor((edges.right - edges.left) / 80)));
  const up = y.ticks ?? ticks(y.domain, y.log, Math.max(2, Math.floor((edges.bottom - edges.top) / 45)));
  const text = (tick) => (Array.isArray(tick) ? tick[1] : number(tick, 6));
  const at = (tick) => (Array.isArray(tick) ? tick[0] : tick);
  const axes = group(
    {},
    up.map((tick) => line(edges.left, sy(at(tick)), edges.right, sy(at(tick)), { class: "grid" }) + label(edges.left - 7, sy(at(tick)) + 4, text(tick), { anchor: "end" })),
    across.map((tick) => line(sx(at(tick)), edges.bottom, sx(at(tick)), edges.bottom + 5) + label(sx(at(tick)), edges.bottom + 18, text(tick), { anchor: "middle" })),
    line(edges.left, edges.bottom, edges.right, edges.bottom),
    x.label ? label(edges.right, edges.bottom + 34, x.label, { anchor: "end" }) : "",
    y.label ? label(Math.max(2, edges.left - 44), edges.top - 11, y.label) : "",
  );
  return { x: sx, y: sy, ...edges, axes };
}

/** From values to pixels; values beyond the domain go on beyond the frame. */
export function scale({ domain: [low, high], log }, start, end) {
  const inner = log ? Math.log : (value) => value;
  const outer = log ? Math.exp : (value) => value;
  const span = inner(high) - inner(low) || 1;
  const place = (value) => start + ((inner(value) - inner(low)) / span) * (end - start);
  place.invert = (pixel) => outer(inner(low) + ((pixel - start) / (end - start)) * span);
  return place;
}

/** Round numbers within a domain, about so many. */
export function ticks([low, high], log, wanted) {
  if (log) {
    const powers = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * (1 + 1e-9); power++) powers.push(10 ** power);
    const every = Math.max(1, Math.ceil(powers.length / wanted));
    if (powers.length >= 3) return powers.filter((_, index) => index % every === 0);
    return [1, 2, 5].flatMap((digit) => [-1, 0, ...powers.map((_, index) => index + 1)].map((power) => digit * 10 ** (Math.floor(Math.log10(low)) + power))).filter((value) => value >= low && value <= high).sort((a, b) => a - b);
  }
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough * 0.999);
  const values = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) values.push(Number((index * step).toPrecision(12)));
  // One tick says nothing about a scale.
  return values.length < 2 && wanted < 50 ? ticks([low, high], log, 2 * wanted) : values;
}

/** A line of a chart: look is the number of its colour, 0 to 7. */
export function series(chart, points, look, attributes = {}) {
  return group({ class: `s${look}` }, polyline(points.map(([x, y]) => [chart.x(x), chart.y(y)]), attributes));
}

/** Names of lines in rows above a chart: entries are [look, name]; gives the drawing and its height. */
export function legend(entries, x, y, width) {
  let [left, top] = [x, y];
  const content = entries.map(([look, name, dash]) => {
    const wide = 36 + measure(name);
    if (left > x && left + wide > x + width) [left, top] = [x, top + 18];
    const drawn = group({ class: `s${look}` }, line(left, top - 4, left + 16, top - 4, { class: "line", "stroke-dasharray": dash }), label(left + 21, top, name, { class: "name" }));
    left += wide;
    return drawn;
  });
  return { content: content.join(""), height: top - y + 18 };
}

/** The colour of a style sheet's variable, as [red, green, blue]. */
function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

const canvas = document.createElement("canvas");

/**
 * A matrix as a picture, one pixel a cell: `values` is [rows][columns]. Shades run from `low` to `high`; if `low` is negative
 * they run from one colour over paper (at zero) to another. A cell that is null or not finite is left out.
 */
export function heat(values, { x, y, width, height, low, high, title }) {
  const [rows, columns] = [values.length, values[0]?.length ?? 0];
  if (!rows || !columns) return "";
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(columns, rows);
  const isSigned = low < 0;
  const shades = isSigned ? ["--c1", "--paper", "--c0"].map(colour) : [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((step) => colour(`--h${step}`));
  const reach = isSigned ? Math.max(-low, high) : high - low;
  for (let cell = 0; cell < rows * columns; cell++) {
    const value = values[Math.floor(cell / columns)][cell % columns];
    if (value === null || !Number.isFinite(value)) continue;
    const part = isSigned ? (value / reach + 1) / 2 : (value - low) / reach;
    const place = Math.min(1, Math.max(0, part)) * (shades.length - 1);
    const step = Math.min(shades.length - 2, Math.floor(place));
    const rest = place - step;
    for (let channel = 0; channel < 3; channel++) image.data[4 * cell + channel] = shades[step][channel] * (1 - rest) + shades[step + 1][channel] * rest;
    image.data[4 * cell + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return (
    rect(x, y, width, height, { class: "ground" }) +
    tag("image", { x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", class: "pixels" }, title ? `<title>${title}</title>` : "")
  );
}

/** The cell of a matrix under a point, as [row, column], or nothing. */
export function cellAt(point, { x, y, width, height }, rows, columns) {
  const [row, column] = [Math.floor(((point.y - y) / height) * rows), Math.floor(((point.x - x) / width) * columns)];
  return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
}
