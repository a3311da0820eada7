// SVG as text.
import { escape } from "./format.js";

/** A number for an attribute: two digits after the point are finer than a pixel. */
export const px = (value) => (Number.isFinite(value) ? Math.round(value * 100) / 100 : 0);

/** An element: tag("circle", { cx: 1, cy: 2, r: 3, class: "dot" }). */
export function tag(name, attributes = {}, ...children) {
  const list = Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== null && value !== false)
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? px(value) : escape(value)}"`);
  return `<${name}${list.join("")}>${children.flat().join("")}</${name}>`;
}

export const group = (attributes, ...children) => tag("g", attributes, ...children);
export const line = (x1, y1, x2, y2, attributes = {}) => tag("line", { x1, y1, x2, y2, class: "axis", ...attributes });
export const circle = (cx, cy, r, attributes = {}) => tag("circle", { cx, cy, r, ...attributes });
export const rect = (x, y, width, height, attributes = {}) => tag("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), ...attributes });
/** Text; `anchor` is start, middle or end. */
export const label = (x, y, words, { anchor = "start", ...attributes } = {}) => tag("text", { x, y, "text-anchor": anchor, ...attributes }, escape(words));
/** A path through points, broken where a value is not finite. */
export function polyline(points, attributes = {}) {
  let d = "";
  let isDown = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      isDown = false;
      continue;
    }
    d += `${isDown ? "L" : "M"}${px(x)} ${px(y)}`;
    isDown = true;
  }
  return tag("path", { d, class: "line", ...attributes });
}

/** An arrow from one point to another, in the colour of its class. */
export function arrow(x1, y1, x2, y2, attributes = {}) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 1e-6) return circle(x1, y1, 2, { class: "tip" });
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const head = Math.min(9, length);
  const [bx, by] = [x2 - ux * head, y2 - uy * head];
  const d = `M${px(x2)} ${px(y2)}L${px(bx - uy * head * 0.42)} ${px(by + ux * head * 0.42)}L${px(bx + uy * head * 0.42)} ${px(by - ux * head * 0.42)}Z`;
  return group({ class: "arrow", ...attributes }, line(x1, y1, bx, by, { class: "line" }), tag("path", { d, class: "tip" }));
}

/** An arc of a circle from one angle to another, in radians, against the clock as in mathematics. */
export function arc(cx, cy, r, from, to, attributes = {}) {
  const turn = Math.abs(to - from);
  if (turn >= 2 * Math.PI - 1e-9) return circle(cx, cy, r, { fill: "none", ...attributes });
  const at = (angle) => `${px(cx + r * Math.cos(angle))} ${px(cy - r * Math.sin(angle))}`;
  const d = `M${at(from)}A${px(r)} ${px(r)} 0 ${turn > Math.PI ? 1 : 0} ${to > from ? 0 : 1} ${at(to)}`;
  return tag("path", { d, fill: "none", ...attributes });
}

const pen = document.createElement("canvas").getContext("2d");

/** Pixels across that text takes in a figure. */
export function measure(text, size = 12.5, weight = 400) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** The most pixels across that any of these takes. */
export const widest = (texts, size, weight) => Math.max(0, ...texts.map((text) => measure(text, size, weight)));
