// Linear attention: what it costs, and what rotary embedding does to its weights.
import { frame, legend, series } from "../chart.js";
import { range, shared } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { frac, i, lines, look, n, o, row, sub, sum, sup, text as words } from "../math.js";
import { circle, group, label, line, rect } from "../svg.js";
import { tall } from "./decay/about.js";
import { cursor } from "./decay/cursor.js";
import { t } from "../words.js";

const TOKENS = 16;
const CHART = 320;
const BARS = 250;

function costs(data, width) {
  const top = data.costs.at(-1).softmax;
  const low = data.costs[0].softmax / 2;
  return frame({ x: { domain: [1, 1e6], log: true, label: t`length L`, ticks: powers(0, 6, width < 480 ? 2 : 1) }, y: { domain: [low, top * 2], log: true, ticks: powers(Math.ceil(Math.log10(low)), Math.log10(top * 2), 3) }, width, height: CHART, top: 58, left: 48, right: 24 });
}

/** The bars of the weights, by key. */
function bars(data, width) {
  const all = [...data.plain.weights, ...data.rotated.weights];
  const [low, high] = [Math.min(0, ...all), Math.max(...all)];
  const chart = frame({ x: { domain: [0, TOKENS], ticks: [] }, y: { domain: [low * 1.2, high * 1.1] }, width, height: BARS, top: 52, left: 48, right: 24, bottom: 44 });
  const slot = (chart.right - chart.left) / TOKENS;
  return { chart, slot, key: (x) => Math.max(0, Math.min(TOKENS - 1, Math.floor((x - chart.left) / slot))) };
}

const raised = (exponent) => [...String(exponent)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

/** Ticks at powers of ten. */
function powers(first, last, step) {
  const ticks = [];
  for (let power = first; power <= last; power += step) ticks.push([10 ** power, power < 4 ? String(10 ** power) : `10${raised(power)}`]);
  return ticks;
}

/** 123456 as 1.23 × 10⁵. */
function large(value) {
  if (value < 1e5) return count(value);
  const [mantissa, exponent] = value.toExponential(2).split("e+");
  return `${mantissa} × 10${raised(exponent)}`;
}

export default {
  id: "linear",
  title: t`Attention without comparing all pairs`,
  text: t`<p>Softmax attention compares every query with every key: its work grows with the square of the length. Linear attention puts
    φ(q)·φ(k) in the place of the exponential, with a φ that makes D positive features, such as elu(x) + 1. (It replaces the
    exponential; it does not approximate it.) Then the sum over keys is the same for every query and is made once: S, a matrix of D × d
    numbers. The work is of order L·D·d.</p>
    <p>At L = <output data-value="length"></output>: softmax <output data-value="softmax"></output> multiplications per head, linear
    <output data-value="linear"></output>. They cross at L =
    D·(d + 1)/d = <output data-value="crossing"></output>, about D: a shorter text is cheaper with softmax.</p>
    <p>A bias added to the score, as T5 has it, differs for each query and key, so that there is no one S to share. It need not cost L²
    again: a bias by distance is a convolution, which takes L·log L. A rotation is a part of the features and costs next to
    nothing.</p>
    <p>But rotate φ(q) and φ(k), and their products can be negative. RoFormer rotates the numerator alone: a rotated denominator could be
    zero. The bars are a real example: the weights of query <output data-value="query"></output> sum to <output data-value="sum"></output>, not 1;
    the smallest is <output data-value="least"></output>; <output data-value="negative"></output> of all 256 are negative. With the
    denominator rotated too it would be <output data-value="turned"></output> in the place of <output data-value="plain"></output>.</p>`,
  controls: {
    length: range(t`length L`, 4096, 1, 1000000, { log: true, round: Math.round }),
    dim: range(t`numbers of a value, d`, 64, 1, 256),
    features: range(t`features of φ, D`, 64, 1, 1024, { log: true, round: Math.round }),
    query: range(t`query of the example`, 8, 0, TOKENS - 1),
    base: { ...shared.base },
    seed: range(t`another example`, 3, 1, 99),
  },
  route: "linear",

  values: (data, { length, query }) => ({
    length: count(length),
    softmax: large(data.cost.softmax),
    linear: large(data.cost.linear),
    crossing: number(data.crossing, 3),
    query,
    sum: fixed(data.rotated.sum, 4),
    least: fixed(data.rotated.least, 4),
    negative: data.rotated.negative,
    turned: fixed(data.denominators[0], 2),
    plain: fixed(data.denominators[1], 2),
  }),

  formula: (data, { length, dim, features }) => {
    const phi = (turn, name, index) => row(turn ? sub(i("R"), i(index)) : "", i("φ"), o("("), sub(i(name), i(index)), o(")"));
    const product = (isTurned) => row(isTurned ? o("(") : "", phi(isTurned, "q", "m"), isTurned ? o(")") : "", o("·"), isTurned ? o("(") : "", phi(isTurned, "k", "n"), isTurned ? o(")") : "");
    return lines(
      [words("softmax"), row(n(2), sup(i("L"), n(2)), i("d"))],
      ["", row(o("="), n(2), o("·"), sup(n(count(length)), n(2)), o("·"), n(dim), o("="), look(1, n(large(data.cost.softmax))))],
      [words(t`linear`), row(n(2), i("L"), i("D"), o("("), i("d"), o("+"), n(1), o(")"))],
      ["", row(o("="), n(2), o("·"), n(count(length)), o("·"), n(features), o("·"), n(dim + 1), o("="), look(0, n(large(data.cost.linear))))],
      [sub(i("w"), row(i("m"), i("n"))), tall(o("="), frac(product(true), row(sum(i("n")), product(false))))],
      ["", tall(sum(i("n")), sub(i("w"), row(i("m"), i("n"))), o("="), look(0, n(fixed(data.rotated.sum, 4))))],
    );
  },

  draw(data, { length, query }, width) {
    const chart = costs(data, width);
    const line_ = (name, look) => series(chart, data.lengths.map((length, index) => [length, data.costs[index][name]]), look);
    const names = legend([[1, t`softmax attention`], [0, t`linear attention`]], 2, 14, width);
    const crossing = [chart.x(data.crossing), chart.y(data.crossing_cost)];
    const isLeft = crossing[0] > (chart.left + chart.right) / 2;
    const mark = group({ class: "s7" }, circle(...crossing, 5, { class: "dot" }), label(crossing[0] + (isLeft ? -10 : 12), crossing[1] + (isLeft ? -8 : 16), t`equal at L = ${number(data.crossing, 3)}`, { anchor: isLeft ? "end" : "start", class: "name" }));
    const at = cursor(chart, "length", length, [[data.cost.softmax, 1], [data.cost.linear, 0]], `L = ${count(length)}`);
    return {
      height: CHART + 26 + BARS,
      content: group({}, label(2, 32, t`multiplications of one head`), names.content, chart.axes, line_("softmax", 1), line_("linear", 0), mark, at, group({ transform: `translate(0 ${CHART + 26})` }, weights(data, query, width))),
    };
  },

  drag: {
    length: (point, { data, width }) => ({ length: Math.round(Math.min(1e6, Math.max(1, costs(data, width).x.invert(point.x)))) }),
    query: (point, { data, width }) => ({ query: bars(data, width).key(point.x) }),
  },

  table: (data) => ({
    columns: ["length", "softmax", "linear", "key", "weight_plain", "weight_rotated"],
    rows: data.lengths.map((length, index) => [length, data.costs[index].softmax, data.costs[index].linear, ...(index < TOKENS ? [index, data.plain.weights[index], data.rotated.weights[index]] : ["", "", ""])]),
  }),

  describe: (data, { length }) => t`Multiplications against the length: at ${length} softmax attention takes ${data.cost.softmax}, linear attention ${data.cost.linear}. Below, weights of one query: with rotation they sum to ${fixed(data.rotated.sum, 4)}.`,
};

/** The weights of one query, without positions and with the numerator rotated. */
function weights(data, query, width) {
  const { chart, slot } = bars(data, width);
  const bar = (value, index, side, look) => {
    const [y, zero] = [chart.y(value), chart.y(0)];
    return group({ class: `s${look}` }, rect(chart.left + (index + (side ? 0.5 : 0.12)) * slot, Math.min(y, zero), slot * 0.36, Math.abs(y - zero), { class: "tip" }));
  };
  const names = legend([[5, t`without positions: sum ${fixed(data.plain.sum, 4)}`], [0, t`numerator rotated: sum ${fixed(data.rotated.sum, 4)}`], [1, t`negative`]], 2, 30, width);
  const token = chart.left + (query + 0.5) * slot;
  const ticks = data.plain.weights.map((_, key) => (key % (width < 480 ? 4 : 2) && key !== query ? "" : key === query ? "" : label(chart.left + (key + 0.5) * slot, chart.bottom + 17, key, { anchor: "middle" })));
  return group(
    {},
    label(2, 10, t`an example: the weights of one query`, { class: "heading" }),
    names.content,
    chart.axes,
    line(chart.left, chart.y(0), chart.right, chart.y(0)),
    data.plain.weights.map((value, index) => bar(value, index, 0, 5)),
    data.rotated.weights.map((value, index) => bar(value, index, 1, value < 0 ? 1 : 0)),
    ticks,
    label(chart.right, chart.bottom + 38, t`key n`, { anchor: "end" }),
    group({ class: "s0 handle", "data-drag": "query" }, rect(token - 13, chart.bottom + 3, 26, 22, { rx: 5, class: "token" }), label(token, chart.bottom + 19, query, { anchor: "middle", class: "on" })),
  );
}
