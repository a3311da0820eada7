// Angles at far positions: as they are, as single precision forms them, and from positions kept in bf16.
import { frame, legend } from "../chart.js";
import { presets, range, shared } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { i, lines, look, n, o, row, sub, text } from "../math.js";
import { arc, arrow, circle, group, label, line, px, rect, tag } from "../svg.js";
import { t } from "../words.js";

const FURTHEST = 1e8;
/** Errors below this are drawn at it. */
const FLOOR = 1e-10;
/** The colours: as it is, f32, bf16; and the tables here. */
const [EXACT, SINGLE, BF16, TABLES] = [7, 0, 1, 2];

const off = (pair, way) => Math.abs(pair.angles[way] - pair.angles[0]);
const degrees = (angle) => `${number((angle * 180) / Math.PI, 3)}°`;

/** Where things stand: two dials, and the errors of all pairs below. */
function layout(width, pairs) {
  const size = Math.min(250, width / 2 - 8);
  const dials = [width / 4, (3 * width) / 4].map((x) => ({ x, y: 34 + size / 2 }));
  const top = size + 92;
  const chart = frame({
    x: { domain: [-0.5, pairs - 0.5], label: t`pair`, ticks: pairs < 8 ? Array.from({ length: pairs }, (_, pair) => pair) : undefined },
    y: { domain: [FLOOR, 4], log: true, ticks: [1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1].map((value) => [value, number(value)]) },
    width,
    height: 250,
    left: 46,
    top: 8,
  });
  return { size, radius: size / 2 - 14, dials, top, chart, height: top + 252 };
}

export default {
  id: "precision",
  title: t`How exact is an angle?`,
  text: t`<p>Far into a text the product m·θ is a large number, and only what is left after whole turns counts. A number of 32 bits
    (f32) keeps about seven digits in all: near a million, neighbours are 0.06 apart. Hugging Face's decoders form their angles
    that way.</p>
    <p>At position <output data-value="position"></output> such angles are off by up to <output class="big" data-value="single"></output>
    rad. The hands are drawn as they come out; the lens shows what lies between them.</p>
    <p>Positions kept in bf16 are worse. It has eight binary digits: it <strong>cannot tell 256 from 257</strong>. Position
    <output data-value="position"></output> becomes <output data-value="rounded"></output>, a number that stands for
    <output data-value="shared"></output>. This happens when a whole model, positions and all, is cast to bf16.</p>
    <p>The tables behind this page are within <output data-value="tables"></output> of the true cosines and sines here, and
    within 0.51·2<sup>−24</sup>, about <output data-value="bound"></output>, at every position: frequencies are kept in two 64-bit
    parts, the angle is formed from both, and each cosine is rounded once.</p>`,
  controls: {
    position: range(t`position m`, 1000000, 1, FURTHEST, { log: true, round: (value) => Math.round(Number(value.toPrecision(3))) }),
    pair: range(t`pair j`, 1, 0, 255, { most: (value) => value("dim") / 2 - 1 }),
    base: { ...shared.base },
    dim: { ...shared.dim },
  },
  route: "precision",
  ask: ({ position, base, dim }) => ({ position: Math.round(position), base, dim }),

  setup(section, { set }) {
    const to = (position) => [count(position), { position }];
    presets(section, t`positions to try`, [to(256), to(257), to(4096), to(131071), to(1000000), to(16777217)], set);
  },

  values: (data, { position }) => ({
    position: count(position),
    single: number(data.largest[0], 2),
    rounded: count(data.rounded),
    shared: data.shared === 1 ? t`this position alone` : t`${count(data.shared)} positions in a row`,
    tables: number(data.tables, 2),
    bound: number(data.bound, 3),
  }),

  formula(data, { position, pair }) {
    const { theta, angles } = data.pairs[pair];
    const line = (name, series, m, angle) => [look(series, text(name)), row(n(m), o("·"), n(theta, 7), o("="), look(series, n(fixed(angle, 4))))];
    const error = (name, series, way) => [look(series, text(name)), row(text(t`off by `), look(series, n(off(data.pairs[pair], way), 3)), text(t` radians`))];
    return lines(
      ["", row(i("m"), o("·"), sub(i("θ"), i("j")))],
      line(t`exact`, EXACT, count(position), angles[0]),
      line("f32", SINGLE, count(position), angles[1]),
      line("bf16", BF16, count(data.rounded), angles[2]),
      error("f32", SINGLE, 1),
      error("bf16", BF16, 2),
    );
  },

  draw(data, { pair: index }, width) {
    const pair = data.pairs[index];
    const at = layout(width, data.pairs.length);
    const [dial, lens] = at.dials;
    const hand = (way, series, long) => arrow(dial.x, dial.y, dial.x + long * at.radius * pair.hands[way][0], dial.y - long * at.radius * pair.hands[way][1], { class: `arrow s${series}` });

    // The lens: angles around the exact one, spread so that the error of f32 can be seen.
    const error = pair.angles[1] - pair.angles[0];
    const half = 10 ** Math.ceil(Math.log10(Math.max(1e-9, Math.abs(error) * 1.25)));
    const fan = 1.1; // radians of paper for `half`
    const beam = (angle, long) => [lens.x + long * at.radius * 1.8 * Math.sin(-(angle / half) * fan * 0.5), lens.y + at.radius * 0.92 - long * at.radius * 1.8 * Math.cos((angle / half) * fan * 0.5)];
    const turn = Math.PI / 2;
    const root = [lens.x, lens.y + at.radius * 0.92];
    const ticks = [-1, -0.5, 0, 0.5, 1].map((part) => line(...beam(part * half, 0.97), ...beam(part * half, 1.03)) + label(Math.min(width - 22, beam(part * half, 1.1)[0]), beam(part * half, 1.1)[1] + 4, part === 0 ? "0" : `${part > 0 ? "+" : "−"}${number(Math.abs(part) * half, 2)}`, { anchor: "middle" }));
    const bent = pair.angles[2] - pair.angles[0];
    const wrapped = Math.atan2(Math.sin(bent), Math.cos(bent));
    const magnified = group(
      {},
      arc(...root, at.radius * 1.8, turn - fan * 0.5, turn + fan * 0.5, { class: "axis" }),
      ticks,
      Math.abs(wrapped) <= half ? arrow(...root, ...beam(wrapped, 0.8), { class: `arrow s${BF16}` }) : "",
      arrow(...root, ...beam(0, 0.95), { class: `arrow s${EXACT}` }),
      arrow(...root, ...beam(error, 0.9), { class: `arrow s${SINGLE}` }),
    );

    const { chart } = at;
    // Dots are strokes without length: one path of them is drawn much faster than as many circles.
    const thick = `stroke-width: ${width < 500 || data.pairs.length > 100 ? 4 : 5.6}`;
    const dot = (error, index) => `M${px(chart.x(index))} ${px(chart.y(Math.max(FLOOR, error)))}h0`;
    const dots = (which, series) => group({ class: `s${series}` }, tag("path", { d: data.pairs.map(({ errors }, index) => dot(errors[which], index)).join(""), class: "line", style: thick }));
    const names = legend([[BF16, t`positions in bf16`], [SINGLE, t`angles in f32`], [TABLES, t`the tables here`]], 2, at.top - 4, width);
    const shift = names.height - 18;
    const bound = chart.y(data.bound);
    const errors = group(
      { transform: `translate(0 ${at.top + shift})` },
      chart.axes,
      line(chart.left, bound, chart.right, bound, { class: "level" }),
      label(chart.right, bound - 5, "0.51·2⁻²⁴", { anchor: "end" }),
      line(chart.x(index), chart.top, chart.x(index), chart.bottom),
      dots(2, BF16),
      dots(1, SINGLE),
      dots(0, TABLES),
      rect(chart.left, chart.top, chart.right - chart.left, chart.bottom - chart.top, { class: "handle", "data-drag": "pair", fill: "transparent", style: "touch-action: pan-y" }),
    );
    return {
      height: at.height + shift,
      content:
        label(dial.x, 14, t`pair ${index}, as it turned`, { anchor: "middle", class: "name" }) +
        circle(dial.x, dial.y, at.radius, { class: "dial" }) +
        hand(2, BF16, 0.8) +
        hand(0, EXACT, 1) +
        hand(1, SINGLE, 0.9) +
        label(lens.x, 14, t`under the lens: ± ${number(half, 1)} rad`, { anchor: "middle", class: "name" }) +
        magnified +
        label(2, at.top - 26, t`error of the cosine or sine, whichever is larger`, { class: "name" }) +
        names.content +
        errors,
    };
  },

  drag: {
    pair(point, { width, data }) {
      const { chart } = layout(width, data.pairs.length);
      return { pair: Math.max(0, Math.min(data.pairs.length - 1, Math.round(chart.x.invert(point.x)))) };
    },
  },

  hover(point, { data, width }) {
    const { chart, top } = layout(width, data.pairs.length);
    const index = Math.round(chart.x.invert(point.x));
    const pair = data.pairs[index];
    if (!pair || point.y < top) return "";
    return t`Pair ${index}: f32 is off by ${number(off(pair, 1), 3)} rad (${degrees(off(pair, 1))}), bf16 by ${number(off(pair, 2), 3)} rad.`;
  },

  table: (data) => ({
    columns: ["pair", "theta", "angle", "angle_f32", "angle_bf16", "error_tables", "error_f32", "error_bf16"],
    rows: data.pairs.map((pair, index) => [index, pair.theta, ...pair.angles, ...pair.errors]),
  }),

  describe: (data, { position, pair }) =>
    t`The hands of pair ${pair} at position ${position}: f32 is off by ${number(off(data.pairs[pair], 1), 3)} radians, a position in bf16 by ${number(off(data.pairs[pair], 2), 3)}. Below, the errors of all pairs; the tables here are within ${number(data.tables, 2)}.`,
};
