// Score against distance: the paper's bound, and five scores that do what they like below it.
import { frame, legend, series } from "../chart.js";
import { choice, range, shared, words } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { circle, group, label, line, measure, polyline, rect } from "../svg.js";
import { about, CONTROLS, CURVES, digitsOf, formula } from "./decay/about.js";
import { arrange } from "./decay/arrange.js";
import { cursor, nearest } from "./decay/cursor.js";
import { drags, hands } from "./decay/hands.js";
import { t } from "../words.js";

const heightOf = (width) => (width < 480 ? 290 : 350);

/** The chart at a width, without its lines. */
function chartOf(data, { reach }, width) {
  // Room for the numbers beside dots at the very top and bottom.
  const [low, high] = data.limits;
  const room = (high - low) * 0.13;
  return frame({ x: { domain: [0, reach], label: t`distance Δ = m − n` }, y: { domain: [low < 0 ? low - room : low, high + room] }, width, height: heightOf(width), top: 46, right: 24 });
}

const NAMES = { bound: t`bound`, ones: t`score`, random: t`expected score`, own: t`score`, three: "S(Δ)", one: t`score` };
// Which marks have their numbers beside them in the figure; all are in the table below it.
const NAMED = {
  bound: () => false,
  ones: ({ distance }, data) => distance === data.first_negative,
  three: ({ distance }) => distance > 100,
};

// How far each curve is shown at first.
const REACH = { bound: 1000, ones: 2000, random: 1000, own: 1000, three: 400, one: 100 };

const part = {
  id: "decay",
  title: t`Does attention fade with distance?`,
  text: t`<p>The RoFormer paper shows that a bound on the score falls as the distance grows, and calls it long-term decay. It is often
    retold as “the farther, the lower”. That is more than the paper says. Choose a curve, and drag the line along it.</p>
    <p data-value="about"></p>
    <p>At Δ = <output data-value="at"></output> the curve is at <output class="big" data-value="value"></output>.</p>`,
  controls: {
    curve: choice(t`curve`, "bound", CURVES),
    at: range(t`distance, Δ`, 50, 0, 1000),
    reach: range(t`last distance shown`, 1000, 10, 100000, { log: true, round: (value) => Math.round(Number(value.toPrecision(2))) }),
    dim: { ...shared.dim },
    base: { ...shared.base },
    share: range(t`common mean of q and k`, 0, 0, 1, { step: 0.05 }),
    seed: range(t`other examples`, 1, 1, 99),
    q: words(t`q, two numbers per pair`, "0.9,0.4,0.2,1,-0.6,0.8,1,0.1,0.7,-0.7,0.5,0.9"),
    k: words(t`k, two numbers per pair`, "0.5,-0.8,1,0.3,0.9,0.2,-0.3,0.9,0.8,0.4,1,-0.2"),
    aim: range(t`a distance to peak at, r`, 200, 0, 1000),
    theta: range(t`frequency θ`, 0.1, 0.001, 3, { log: true }),
    phase: range(t`phase of the key, φ`, 0, -3.1, 3.1, { step: 0.1 }),
  },
  route: "decay",

  values: (data, state) => ({ about: about(data, state), at: count(state.at), value: fixed(data.value, digitsOf(state.curve)) }),
  formula,

  draw(data, state, width) {
    const chart = chartOf(data, state, width);
    const { curve, at, reach } = state;
    const points = (values) => data.distances.map((distance, index) => [distance, values[index]]);
    const isUsual = data.usual && curve !== "own";
    const names = legend(curve === "random" ? [[0, t`expected`], [4, t`examples`]] : isUsual ? [[0, t`base ${number(state.base)}`], ["7 faded", t`base 10 000`, "4 4"]] : [[0, NAMES[curve]]], 2, 14, width);
    const behind = [];
    if (curve === "one") {
      const [left, right] = [-1, 1].map((side) => Math.min(reach, Math.max(0, data.marks[0].distance + (side * Math.PI) / 2 / data.theta[0])));
      behind.push(rect(chart.x(left), chart.top, chart.x(right) - chart.x(left), chart.bottom - chart.top, { class: "range" }));
    }
    if (data.deviation) {
      const edge = (sign) => data.distances.map((distance, index) => [chart.x(distance), chart.y(data.lines[0][index] + sign * data.deviation)]);
      behind.push(group({ class: "s0" }, polyline([...edge(1), ...edge(-1).reverse()], { class: "band" })));
    }
    const lines = [
      isUsual ? group({ class: "faded" }, polyline(points(data.usual).map(([x, y]) => [chart.x(x), chart.y(y)]), { "stroke-dasharray": "4 4", style: "stroke-width: 1.5" })) : "",
      ...data.lines.slice(1).map((values, index) => series(chart, points(values), 4 + index, { style: "stroke-width: 1.2" })),
      series(chart, points(data.lines[0]), 0),
    ];
    const zero = data.limits[0] < 0 ? line(chart.left, chart.y(0), chart.right, chart.y(0)) : "";
    const clocks = curve === "own" ? hands(data, state, width, heightOf(width)) : { content: "", height: 0 };
    const here = Math.min(at, reach);
    return {
      height: heightOf(width) + clocks.height,
      content: group({}, behind, chart.axes, zero, lines, marked(data, state, chart), cursor(chart, "at", here, [[data.value, 0]], `${count(here)}: ${fixed(data.value, digitsOf(curve))}`), names.content, clocks.content),
    };
  },

  drag: {
    at: (point, { state, data, width }) => ({ at: Math.round(Math.min(state.reach, Math.max(0, chartOf(data, state, width).x.invert(point.x)))) }),
    ...drags(heightOf),
  },

  hover(point, { state, data, width }) {
    const chart = chartOf(data, state, width);
    if (point.y < chart.top || point.y > chart.bottom || point.x < chart.left || point.x > chart.right) return "";
    const index = nearest(data.distances, chart.x.invert(point.x));
    return `Δ = ${number(data.distances[index])}: ${data.lines.map((values) => fixed(values[index], 4)).join(", ")}`;
  },

  html: (data, { curve }) =>
    data.marks.length > 1
      ? `<table><thead><tr><th>Δ</th>${data.marks.map(({ distance }) => `<td>${distance % 1 ? number(distance) : count(distance)}</td>`).join("")}</tr></thead>
         <tbody><tr><th>${NAMES[curve]}</th>${data.marks.map(({ value }) => `<td>${number(value, value > 2.99 && value < 3 ? 6 : 4)}</td>`).join("")}</tr></tbody></table>`
      : "",

  setup(section, { now, set }) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.dataset.action = "aim";
    button.textContent = t`Make it peak there`;
    button.addEventListener("click", () => {
      // Four digits turn a hand by less than can be seen, and keep the address short.
      const { aimed } = section.figure.data ?? {};
      if (aimed?.length) set({ k: aimed.map((number) => Number(number.toFixed(4))).join(",") });
    });
    button.style.justifySelf = "start";
    section.querySelector("#decay-aim").closest(".control").after(button);
    const when = Object.fromEntries([...new Set(Object.values(CONTROLS).flat())].map((name) => [name, ({ curve }) => CONTROLS[curve]?.includes(name)]));
    arrange(section, part, { now, set }, when, ["at", "aim"], (state) => (button.style.display = state.curve === "own" ? "" : "none"));
    // Each curve has a reach at which there is something to see.
    section.querySelector("#decay-curve").parentElement.addEventListener("click", (event) => {
      const reach = REACH[event.target.dataset.choice];
      if (reach) set({ reach, at: Math.min(now().at, reach) });
    });
  },

  table: (data) => ({
    columns: ["distance", ...data.lines.map((_, index) => (index ? `example_${index}` : "value")), ...(data.usual ? ["base_10000"] : [])],
    rows: data.distances.map((distance, index) => [distance, ...data.lines.map((values) => values[index]), ...(data.usual ? [data.usual[index]] : [])]),
  }),

  describe: (data, { curve, at, reach }) => t`${NAMES[curve]} against the distance from 0 to ${reach}. At ${at} it is ${fixed(data.value, 4)}.`,
};

/** Dots at the distances that are worth a look, with their numbers where there is room. */
function marked(data, { reach, curve, at }, chart) {
  const taken = [];
  // The last ones tell most, so they are named first.
  const shown = data.marks.filter(({ distance }) => distance <= reach).reverse();
  return shown.map(({ distance, value }) => {
    const isNamed = NAMED[curve]?.({ distance, value }, data) ?? true;
    const [x, y] = [chart.x(distance), chart.y(value)];
    const text = `${distance % 1 ? number(distance) : count(distance)}: ${number(value, value > 2.99 && value < 3 ? 6 : 3)}`;
    const wide = measure(text) + 2;
    const left = Math.min(Math.max(x - wide / 2, chart.left), chart.right - wide);
    // Below the curves where it crosses zero, beside the dot elsewhere.
    const top = curve === "ones" ? chart.bottom - 8 : value > (data.limits[0] + data.limits[1]) / 2 ? y - 10 : y + 20;
    const isFree = isNamed && Math.abs(x - chart.x(at)) > 8 && taken.every((other) => left > other.right + 6 || left + wide < other.left - 6 || Math.abs(top - other.top) > 15);
    if (isFree) taken.push({ left, right: left + wide, top });
    return group({ class: "s1" }, circle(x, y, 4.5, { class: "dot" }), isFree ? label(left, top, text, { class: "name" }) : "");
  });
}

export default part;
