// Sinusoidal codes as a picture, and how alike they are.
import { cellAt, frame, heat, ticks } from "../chart.js";
import { range } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { i, lines, look, n, o, row, sub, sum, text as words } from "../math.js";
import { circle, group, label, line, polyline, rect } from "../svg.js";
import { kept } from "./decay/kept.js";
import { t } from "../words.js";

/** Where the two pictures stand: side by side where there is room. */
function layout(width, length) {
  const isWide = width >= 560;
  const size = isWide ? (width - 104) / 2 : width - 54;
  const codes = { x: 38, y: 44, width: size, height: size };
  const products = isWide ? { ...codes, x: 38 + size + 62 } : { ...codes, y: 44 + size + 92 };
  const chart = products.y + size + 62;
  return { codes, products, chart, height: chart + 220, row: (y) => clamp(Math.floor(((y - codes.y) / size) * length), length) };
}

const codesDrawn = kept((data, box) => heat(data.codes, { ...box, low: -1, high: 1 }));
const productsDrawn = kept(({ products }, box) => {
  const row = (m) => products.map((_, n) => products[Math.abs(m - n)]);
  return heat(products.map((_, m) => row(m)), { ...box, low: -products[0], high: products[0] });
});

const clamp = (position, length) => Math.max(0, Math.min(length - 1, position));

/** Ticks at whole numbers below a count. */
const ticksOf = (count) => ticks([0, count - 1], false, 4).filter(Number.isInteger);

export default {
  id: "similarity",
  title: t`How alike are two positions?`,
  text: t`<p>Before rotary embedding there were sinusoidal codes: each position has a vector of sines and cosines, with the same frequencies
    that rotary embedding has, and it is added to the vector of the word there. The first picture shows the codes, a row for each
    position.</p>
    <p>The second one multiplies every code with every other. Along each diagonal all values are the same: <strong>the product
    depends on the distance alone</strong>. Of the pairs shown, no two at one distance differ by more than
    <output data-value="spread"></output>, which is rounding.</p>
    <p>Two things it cannot do. It is symmetric, so it does not tell <em>before</em> from <em>after</em>: position
    <output data-value="m"></output> is as like <output data-value="n"></output> as it is like <output data-value="mirror"></output>,
    as far away on the other side. And it does not tend to zero, as is often said: far away it keeps swinging, by
    ±<output data-value="level"></output> (the root mean square beyond Δ = 50 000; in the long run √d/2).</p>`,
  controls: {
    m: range(t`position m`, 50, 0, 95),
    n: range(t`position n`, 20, 0, 95),
    dim: range(t`features of a code, d`, 128, 2, 128, { step: 2 }),
    length: range(t`positions shown`, 80, 8, 96),
  },
  route: "similarity",
  // Positions beyond the last one shown stand on it.
  ask: ({ m, n, dim, length }) => ({ m: Math.min(m, length - 1), n: Math.min(n, length - 1), dim, length }),

  values: (data, state) => {
    const { m, n } = within(state);
    return { spread: number(data.spread, 2), m, n, mirror: String(2 * m - n).replace("-", "−"), level: fixed(data.level, 2) };
  },

  formula: (data, state) => {
    const { m, n: other } = within(state);
    const p = (...index) => sub(i("p"), row(...index));
    return lines(
      [row(p(i("m")), o("·"), p(i("n"))), row(o("="), sum(i("j")), i("cos"), o("("), i("m"), o("−"), i("n"), o(")"), sub(i("θ"), i("j")))],
      [row(p(n(m)), o("·"), p(n(other))), row(o("="), look(0, n(fixed(data.product, 4))), words(t` at `), i("m"), o("−"), i("n"), o("="), n(m - other))],
      [row(p(n(m)), o("·"), p(n(2 * m - other))), row(o("="), look(0, n(fixed(data.mirrored, 4))), words(t` at `), i("m"), o("−"), i("n"), o("="), n(other - m))],
      [row(p(n(m + 1)), o("·"), p(n(other + 1))), row(o("="), look(0, n(fixed(data.moved, 4))), words(t` both moved`))],
    );
  },

  draw(data, state, width) {
    const { m, n, length } = within(state);
    const at = layout(width, length);
    const { codes, products } = at;
    const pairs = state.dim / 2;
    const cell = codes.height / length;
    const down = (box, words) => [label(box.x, box.y - 26, words, { class: "heading" }), ticksOf(length).map((tick) => label(box.x - 6, box.y + (tick + 0.5) * cell + 4, tick, { anchor: "end" }))];
    const across = (box, ticks, count, words) => ticks.map((tick) => label(box.x + ((tick + 0.5) / count) * box.width, box.y + box.height + 16, tick, { anchor: "middle" })).join("") + label(box.x + box.width, box.y + box.height + 32, words, { anchor: "end" });
    const row = (name, position, series) => {
      const y = codes.y + (position + 0.5) * cell;
      return group({ class: `s${series} handle`, "data-drag": name }, rect(codes.x, y - 9, codes.width + 14, 18, { fill: "transparent" }), line(codes.x, y, codes.x + codes.width, y, { class: "line" }), circle(codes.x + codes.width, y, 11, { class: "knob" }), label(codes.x + codes.width, y + 5, name, { anchor: "middle", class: "on" }));
    };
    const key = `${width} ${data.codes[0].length} ${data.products}`;
    const [cx, cy] = [products.x + (n + 0.5) * cell, products.y + (m + 0.5) * cell];
    const diagonal = m - n;
    const ends = diagonal >= 0 ? [[0, diagonal], [length - diagonal, length]] : [[-diagonal, 0], [length, length + diagonal]];
    const features = ticksOf(state.dim);
    return {
      height: at.height,
      content: group(
        {},
        down(codes, t`the codes`),
        across(codes, features, state.dim, t`feature →`),
        label(codes.x, codes.y - 9, t`position ↓`),
        codesDrawn(key, data, codes),
        row("m", m, 7),
        row("n", n, 3),
        down(products, t`their inner products`),
        across(products, ticksOf(length), length, t`position n →`),
        label(products.x, products.y - 9, t`position m ↓`),
        group({ class: "handle", "data-drag": "cell" }, productsDrawn(key, data, products), polyline(ends.map(([x, y]) => [products.x + x * cell, products.y + y * cell]), { class: "axis", "stroke-dasharray": "5 4" }), line(products.x, cy, products.x + products.width, cy), line(cx, products.y, cx, products.y + products.height), group({ class: "s7" }, circle(cx, cy, 7, { class: "knob" }))),
        far(data, at.chart, width, pairs, Math.abs(m - n)),
      ),
    };
  },

  drag: {
    m: (point, { state, width }) => ({ m: layout(width, state.length).row(point.y) }),
    n: (point, { state, width }) => ({ n: layout(width, state.length).row(point.y) }),
    cell(point, { state, width }) {
      const { products } = layout(width, state.length);
      const place = (value) => clamp(Math.floor((value / products.width) * state.length), state.length);
      return { m: place(point.y - products.y), n: place(point.x - products.x) };
    },
  },

  hover(point, { state, data, width }) {
    const { codes, products } = layout(width, state.length);
    const code = cellAt(point, codes, state.length, state.dim);
    if (code && data.codes[code[0]]) return t`position ${code[0]}, feature ${code[1]}: ${fixed(data.codes[code[0]][code[1]], 3)}`;
    const cell = cellAt(point, products, state.length, state.length);
    return cell ? `m = ${cell[0]}, n = ${cell[1]}: ${fixed(data.products[Math.abs(cell[0] - cell[1])], 4)}` : "";
  },

  table: (data) => ({
    columns: ["distance", "product"],
    rows: [...data.products.map((product, distance) => [distance, product]), ...data.far.map((distance, index) => [distance, data.far_products[index]]).filter(([distance]) => distance >= data.products.length)],
  }),

  describe: (data, state) => {
    const { m, n } = within(state);
    return t`Sinusoidal codes as a picture, the matrix of their inner products, and the product against the distance. Positions ${m} and ${n}: ${fixed(data.product, 3)}.`;
  },
};

/** The two positions, on what is shown. */
const within = ({ m, n, length }) => ({ m: clamp(m, length), n: clamp(n, length), length });

/** The product against the distance, as far as a million. */
function far(data, top, width, pairs, distance) {
  const powers = [1, 100, 10000, 1000000].map((tick) => [tick, count(tick)]);
  const low = Math.min(...data.far_products, -1.5 * data.level);
  const chart = frame({ x: { domain: [1, 1e6], log: true, label: t`distance |m − n|`, ticks: powers }, y: { domain: [low * 1.05, pairs * 1.04] }, width, height: 190, left: 44, right: 32, top: 10 });
  const points = data.far.map((far, index) => [chart.x(far), chart.y(data.far_products[index])]);
  const level = [1, -1].map((sign) => line(chart.x(5e4), chart.y(sign * data.level), chart.right, chart.y(sign * data.level), { class: "level" }));
  return group(
    { transform: `translate(0 ${top + 30})` },
    label(2, -12, t`as far as a million`, { class: "heading" }),
    chart.axes,
    line(chart.left, chart.y(0), chart.right, chart.y(0)),
    group({ class: "s0" }, polyline(points)),
    level,
    label(chart.right, -12, t`dotted: ± ${fixed(data.level, 2)}`, { anchor: "end" }),
    distance ? group({ class: "s7" }, circle(chart.x(distance), chart.y(data.product), 6, { class: "knob" })) : "",
  );
}
