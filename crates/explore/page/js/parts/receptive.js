// The receptive-field variant: frequencies moved towards one that all share.
import { frame, legend, series, ticks } from "../chart.js";
import { choice, range, shared } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { frac, i, lines, look, n, o, row, sub, sup, text as words } from "../math.js";
import { circle, group, label, line, polyline } from "../svg.js";
import { tall } from "./decay/about.js";
import { arrange } from "./decay/arrange.js";
import { cursor, nearest } from "./decay/cursor.js";
import { t } from "../words.js";

const CHART = 360;
const BELOW = 230;

function chartOf(data, { reach }, width) {
  const all = data.parts.flatMap(({ a, b, score, usual }) => [a, b, score, usual]);
  const [low, high] = [Math.min(0, ...all), Math.max(1e-9, ...all)];
  const room = 0.06 * (high - low);
  return frame({ x: { domain: [0, reach], label: t`distance Δ = m − n` }, y: { domain: [low - room, high + room] }, width, height: CHART, top: width < 560 ? 84 : 66, right: 24 });
}

const part = {
  id: "receptive",
  title: t`A receptive field for rotary embedding`,
  text: t`<p>A variant of rotary embedding takes other frequencies: each is moved towards a frequency that all pairs share,
    θ*<sub>j</sub> = α/10000<sup>ρ</sup> + (1 − α)θ<sub>j</sub>. The score a* then has two parts: a′ and b′, the real and the imaginary
    part of the sum with the frequencies (1 − α)θ<sub>j</sub>, mixed by an angle that grows with the distance.</p>
    <p>The shared frequency φ = α/10000<sup>ρ</sup> is <output data-value="phi"></output>: it depends on α as well as on ρ. Raise ρ until φ
    is next to nothing: then a* is a′, and the rule <strong>is linear interpolation</strong>, with positions divided by 1/(1 − α) =
    <output data-value="stretch"></output>. α makes frequencies smaller; it does not make their influence smaller.</p>
    <p><span data-value="hilbert"></span></p>
    <p>Nothing is gained that rotary embedding could not do: with the frequencies θ*<sub>j</sub> a plain rotation gives the same score,
    <output data-value="rotation"></output>.</p>`,
  controls: {
    alpha: range("α", 0.5, 0, 1.5, { step: 0.01 }),
    rho: range("ρ", 0.5, 0, 2, { step: 0.01 }),
    at: range(t`distance, Δ`, 200, 0, 1000),
    vectors: choice(t`query and key`, "alike", [["alike", t`alike`], ["random", t`random`]]),
    seed: range(t`another random query and key`, 1, 1, 99),
    reach: range(t`last distance shown`, 1000, 10, 100000, { log: true, round: (value) => Math.round(Number(value.toPrecision(2))) }),
    dim: { ...shared.dim },
    base: { ...shared.base },
  },
  route: "receptive",

  values: (data, { alpha }) => ({
    phi: number(data.phi),
    stretch: data.stretch === null ? t`∞ (at α = 1 all pairs turn alike)` : number(data.stretch),
    rotation: fixed(data.by_rotation, 6),
    hilbert: data.is_hilbert_pair
      ? t`b′ is the Hilbert transform of a′: every cosine in a′ is a sine in b′. The dots, which are the transform, lie on b′. That holds for α below 1 alone.`
      : alpha === 1
        ? t`At α = 1 a′ and b′ are constants. The Hilbert transform of a constant is 0 (the dots), which is not b′: the two are a Hilbert pair for α below 1 alone.`
        : t`Above α = 1 the frequencies (1 − α)θ are negative, and the Hilbert transform of a′ (the dots) is −b′: the two are a Hilbert pair for α below 1 alone.`,
  }),

  formula: (data, { at, alpha, rho }) => {
    const prime = (name) => row(i(name), o("′"));
    const angle = row(i("Δ"), i("φ"));
    return lines(
      [i("φ"), tall(o("="), frac(n(alpha), sup(n(10000), n(rho))), o("="), n(data.phi))],
      [sup(i("a"), o("*")), row(o("="), i("cos"), o("("), angle, o(")"), look(0, prime("a")), o("−"), i("sin"), o("("), angle, o(")"), look(1, prime("b")))],
      ["", row(o("="), look(3, n(fixed(data.here.score, 4))), words(t` at `), i("Δ"), o("="), n(count(at)))],
      ["", row(look(0, prime("a"), o("="), n(fixed(data.here.a, 4))), o(","), look(1, prime("b"), o("="), n(fixed(data.here.b, 4))))],
    );
  },

  draw(data, state, width) {
    const { at, reach } = state;
    const chart = chartOf(data, state, width);
    const points = (name) => data.distances.map((distance, index) => [distance, data.parts[index][name]]);
    const names = legend([[0, "a′"], [1, "b′"], [7, t`Hilbert transform of a′`, "1 6"], [3, t`a*, the score`], [5, t`usual score`, "5 4"]], 2, 14, width);
    const here = Math.min(at, reach);
    const dots = group({ class: "s7" }, polyline(points("transform").map(([x, y]) => [chart.x(x), chart.y(y)]), { "stroke-dasharray": "0.1 7", style: "stroke-width: 3" }));
    return {
      height: CHART + BELOW,
      content: group(
        {},
        names.content,
        chart.axes,
        line(chart.left, chart.y(0), chart.right, chart.y(0)),
        series(chart, points("usual"), 5, { "stroke-dasharray": "5 4", style: "stroke-width: 1.3" }),
        series(chart, points("b"), 1),
        dots,
        series(chart, points("a"), 0),
        series(chart, points("score"), 3),
        cursor(chart, "at", here, [[data.here.b, 1], [data.here.a, 0], [data.here.score, 3]], `${count(here)}: ${fixed(data.here.score, 3)}`),
        group({ transform: `translate(0 ${CHART + 10})` }, frequencies(data, width)),
      ),
    };
  },

  drag: {
    at: (point, { state, data, width }) => ({ at: Math.round(Math.min(state.reach, Math.max(0, chartOf(data, state, width).x.invert(point.x)))) }),
  },

  hover(point, { state, data, width }) {
    const chart = chartOf(data, state, width);
    if (point.y < chart.top || point.y > chart.bottom || point.x < chart.left || point.x > chart.right) return "";
    const index = nearest(data.distances, chart.x.invert(point.x));
    const { a, b, score, usual } = data.parts[index];
    return t`Δ = ${number(data.distances[index])}: a′ ${fixed(a)}, b′ ${fixed(b)}, a* ${fixed(score)}, usual ${fixed(usual)}`;
  },

  setup: (section, tools) => arrange(section, part, tools, { seed: ({ vectors }) => vectors === "random" }, ["at"]),

  table: (data) => ({
    columns: ["distance", "a", "b", "hilbert_transform_of_a", "score", "usual_score"],
    rows: data.distances.map((distance, index) => [distance, ...["a", "b", "transform", "score", "usual"].map((name) => data.parts[index][name])]),
  }),

  describe: (data, { at, alpha, rho }) => t`The parts a′ and b′ of a score and the score itself, for α ${alpha} and ρ ${rho}. At distance ${at} the score is ${fixed(data.here.score, 4)}.`,
};

/** The frequencies of all pairs before and after, by logarithms; one that is negative turns backwards and is a ring. */
function frequencies(data, width) {
  const sizes = [...data.theta, ...data.moved].map(Math.abs).filter((size) => size > 0);
  const last = data.theta.length - 1;
  const domain = [Math.min(...sizes) / 1.5, Math.max(...sizes) * 1.5];
  const chart = frame({ x: { domain: [0, Math.max(1, last)], label: t`pair j`, ticks: ticks([0, Math.max(1, last)], false, 6).filter(Number.isInteger) }, y: { domain, log: true }, width, height: BELOW - 12, top: 42, right: 24 });
  const radius = last > 100 ? 2 : 3;
  const dots = (values, look) => values.map((value, pair) => (value === 0 ? "" : group({ class: `s${look}` }, circle(chart.x(pair), chart.y(Math.abs(value)), radius, value < 0 ? { class: "line", style: "stroke-width: 1.2" } : { class: "tip" }))));
  const names = legend([[5, t`θ before`], [3, data.moved.some((value) => value < 0) ? t`θ* (rings: negative)` : t`θ* after`]], 2, 14, width);
  return group({}, names.content, chart.axes, dots(data.theta, 5), dots(data.moved, 3));
}

export default part;
