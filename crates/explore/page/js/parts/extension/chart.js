// The chart of wavelengths, or of how much slower each pair turns.
import { frame, series } from "../../chart.js";
import { circle, group } from "../../svg.js";
import { lengthMarks, nameRows, powersOfTen } from "../lengths.js";
import { HIGHEST, METHODS, POWERS } from "./methods.js";
import { t } from "../../words.js";

/** What a dot's colour says about its pair at the target. */
const SEEN = [t`saw every angle in training`, t`saw a part, reaches no more`, t`reaches angles never seen`];

/** The frame, below its rows of names. */
export function geometry(data, state, width) {
  const look = METHODS.find(([key]) => key === state.method)?.[2] ?? 0;
  const lines = nameRows(METHODS.map(([, name, look, dash]) => ({ look: `s${look}`, name, dash })), 14, width);
  const dots = nameRows(SEEN.map((name, seen) => ({ look: [`s${look}`, "faded", "s1"][seen], name, isDot: true })), 14 + lines.height, width);
  const plain = data.methods[0].wavelength;
  const top = 14 + lines.height + dots.height + 16;
  const tall = Math.max(260, Math.min(430, width * 0.62));
  const highest = data.stretch ** HIGHEST;
  const domain = state.ratio ? [0.93, Math.max(1.6, highest * 1.05)] : [4.5, 1.6 * Math.max(plain.at(-1) * highest, state.context, state.length)];
  const y = state.ratio ? { label: t`slower by, θ/θ′` } : { label: t`wavelength 2π/θ, tokens`, ticks: powersOfTen(domain, tall) };
  const x = { domain: [-0.5, plain.length - 0.5], label: t`pair j, fast to slow` };
  const height = top + tall + 40;
  return { ...frame({ x, y: { ...y, domain, log: true }, width, height, top }), height, names: lines.content + dots.content, pairs: plain.length };
}

export function drawChart(data, state, width) {
  const index = Math.max(0, METHODS.findIndex(([key]) => key === state.method));
  const [, , look] = METHODS[index];
  const chart = geometry(data, state, width);
  const of = (method) => (state.ratio ? method.slowdown : method.wavelength);
  const points = (values) => values.map((value, pair) => [pair, value]);
  const front = data.methods[index];
  const values = mixed(of(front), state.morph && of(data.methods.find(({ key }) => key === state.morph.from) ?? front), state.morph?.part);
  const others = data.methods.map((method, other) => {
    const [, , look, dash] = METHODS[other];
    return other === index ? "" : series(chart, points(of(method)), look, { "stroke-opacity": 0.45, style: "stroke-width: 1.25", "stroke-dasharray": dash });
  });
  // The dynamic rule on its way.
  const way = state.method === "dynamic" && !state.ratio && !state.morph ? data.steps.map((step) => series(chart, points(step.wavelength), look, { class: "thin" })) : [];
  const size = Math.max(1.3, Math.min(4, ((chart.right - chart.left) / chart.pairs) * 0.4));
  const dot = (value, pair) => circle(chart.x(pair), chart.y(value), size, { class: `point ${["", "faded", "s1"][front.seen[pair]]}` });
  const marks = state.ratio ? { shade: "", lines: "" } : lengthMarks(chart, state.length, state.context);
  const content = [
    marks.shade,
    chart.axes,
    marks.lines,
    others,
    way,
    series(chart, points(values), look, { style: "stroke-width: 2.5", "data-line": state.method }),
    group({ class: `s${look}` }, values.map(dot)),
    state.method === "longrope" && !state.morph ? knots(chart, data, state, look) : "",
    chart.names,
  ];
  return { height: chart.height, content: group({}, content) };
}

/** Values on the way from one method to another: by factors, as the axis is. */
function mixed(values, from, part) {
  if (!from) return values;
  return values.map((value, pair) => Math.exp(Math.log(from[pair]) * (1 - part) + Math.log(value) * part));
}

/** The points of LongRoPE's divisors, to be dragged up and down. */
function knots(chart, data, state, look) {
  return data.knots.map((pair, index) => {
    const [x, y] = [chart.x(pair), chart.y(valueAt(pair, state.powers[index], data, state))];
    const name = POWERS[index][0];
    return group({ class: `s${look} handle`, "data-drag": name }, circle(x, y, 16, { fill: "transparent" }), circle(x, y, 7, { class: "knob" }));
  });
}

/** What a pair's divisor s^power makes of it. Plain wavelengths are a geometric row, also between pairs. */
function valueAt(pair, power, data, { ratio }) {
  const slower = data.stretch ** power;
  if (ratio) return slower;
  const plain = data.methods[0].wavelength;
  return plain[0] * (plain.at(-1) / plain[0]) ** (pair / (plain.length - 1)) * slower;
}

/** The power that puts a knot at a height; nothing where there is no stretch to take a power of. */
export function powerAt(y, index, data, state, width) {
  if (data.stretch <= 1) return null;
  const chart = geometry(data, state, width);
  const kept = valueAt(data.knots[index], 0, data, state);
  const power = Math.log(chart.y.invert(y) / kept) / Math.log(data.stretch);
  return Number(Math.max(0, Math.min(HIGHEST, power)).toFixed(2));
}

/** The pair under a point. */
export function pairAt(point, chart) {
  const pair = Math.round(chart.x.invert(point.x));
  const isInside = point.y > chart.top && point.y < chart.bottom + 20;
  return isInside && pair >= 0 && pair < chart.pairs ? pair : null;
}
