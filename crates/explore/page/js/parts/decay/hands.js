// A query and a key as hands of clocks, one clock a pair, that can be dragged.
import { number } from "../../format.js";
import { circle, group, label, line } from "../../svg.js";

const LONGEST = 1.6;

export const numbers = (text) => text.split(",").map(Number);

/** Where the clocks stand below a chart. */
function clocks(width, pairs, top) {
  const across = Math.min(pairs, width < 560 ? 3 : 6);
  const size = width / across;
  const radius = Math.min(56, size / 2 - 8);
  const at = (pair) => ({ x: (pair % across) * size + size / 2, y: top + radius + 10 + Math.floor(pair / across) * (2 * radius + 42) });
  return { at, radius, height: Math.ceil(pairs / across) * (2 * radius + 42) };
}

/** The clocks, drawn. */
export function hands(data, { q, k }, width, top) {
  const [query, key] = [numbers(q), numbers(k)];
  const layout = clocks(width, data.theta.length, top);
  const scale = layout.radius / LONGEST;
  const drawn = data.theta.map((theta, pair) => {
    const { x, y } = layout.at(pair);
    const hand = (name, vector, look) => {
      const [tipX, tipY] = [x + vector[2 * pair] * scale, y - vector[2 * pair + 1] * scale];
      return group({ class: `s${look} handle`, "data-drag": `${name}${pair}` }, line(x, y, tipX, tipY, { class: "line" }), circle(tipX, tipY, 6, { class: "knob" }), circle(tipX, tipY, 13, { fill: "transparent" }));
    };
    return group({}, circle(x, y, layout.radius, { class: "dial" }), hand("k", key, 1), hand("q", query, 0), label(x, y + layout.radius + 17, `θ = ${number(theta, 2)}`, { anchor: "middle" }));
  });
  return { content: drawn.join(""), height: layout.height };
}

/** What becomes of the state when a hand's tip is dragged to a point. */
export function drags(topOf) {
  const move = (name, pair) => (point, { state, data, width }) => {
    const { at, radius } = clocks(width, data.theta.length, topOf(width));
    const { x, y } = at(pair);
    const [dx, dy] = [((point.x - x) / radius) * LONGEST, ((y - point.y) / radius) * LONGEST];
    const shrink = Math.min(1, LONGEST / Math.hypot(dx, dy));
    const list = numbers(state[name]);
    [list[2 * pair], list[2 * pair + 1]] = [dx, dy].map((part) => Number((part * shrink).toFixed(2)));
    return { [name]: list.join(",") };
  };
  const pairs = Array.from({ length: 32 }, (_, pair) => pair);
  return Object.fromEntries(pairs.flatMap((pair) => ["q", "k"].map((name) => [`${name}${pair}`, move(name, pair)])));
}
