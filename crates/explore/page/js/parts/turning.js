// One pair of features as an arrow that turns while the position grows, and its two features as waves.
import { frame, legend, series } from "../chart.js";
import { range, shared } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { i, lines, look, matrix, n, o, row, sub, sup, text } from "../math.js";
import { arrow, circle, group, label, line, rect } from "../svg.js";
import { t } from "../words.js";

const LAST = 128;
/** Earlier positions that stay on the circle, fading. */
const TRAIL = 16;
/** The longest arrow that can be dragged. */
const LONGEST = 1.5;

/** Where things stand at a width: the circle, and the waves beside it or, on a narrow page, below. */
function layout(width, { x0, x1 }) {
  const isWide = width >= 560;
  const size = isWide ? Math.min(300, 0.42 * width) : Math.min(width, 300);
  const reach = Math.max(LONGEST, Math.hypot(x0, x1)) * 1.06;
  const unit = (size / 2 - 6) / reach;
  const centre = { x: isWide ? size / 2 : width / 2, y: 24 + size / 2 };
  const [left, top] = isWide ? [size + 20, 0] : [0, size + 44];
  const chart = frame({
    x: { domain: [0, LAST], label: t`position` },
    y: { domain: [-reach, reach], ticks: [-1, 0, 1] },
    width: width - left,
    height: size + 48,
    left: 26,
    top: 24,
    bottom: 40,
    right: 10,
  });
  return { unit, centre, left, top, chart, size, height: top + (isWide ? size + 52 : size + 48) };
}

export default {
  id: "turning",
  title: t`A pair of features turns`,
  text: t`<p>Take two features of a query or a key, x₀ and x₁, and draw them as one arrow. A rotary embedding turns this arrow by the
    angle m·θ when the token stands at position m. The arrow keeps its length, so nothing that the two features say is lost; its
    direction now also tells where the token stands.</p>
    <p>Each pair has its own speed θ<sub>j</sub>. Pair 0 turns by one radian a token: pairs are counted from 0. Every next pair
    is slower. Pair <output data-value="pair"></output> takes <output data-value="wavelength"></output> tokens for a full
    turn; over the 128 positions shown here it turns <output data-value="turns"></output> times.</p>
    <p>Looked at from the side, the two features are two waves, a quarter of a turn apart. Drag the pale arrow to change the
    features, drag across the waves to move the token, or press play and try a fast pair and a slow one. The dots are the
    last ${TRAIL} positions: <strong>a fast pair tells neighbours apart, a slow one tells near from far.</strong></p>`,
  controls: {
    pair: range(t`pair j`, 8, 0, 255, { most: (value) => value("dim") / 2 - 1 }),
    position: range(t`position m`, 15, 0, LAST),
    x0: range(t`x₀, the first feature`, 1, -LONGEST, LONGEST, { step: 0.01 }),
    x1: range(t`x₁, the second feature`, 0.5, -LONGEST, LONGEST, { step: 0.01 }),
    base: { ...shared.base },
    dim: { ...shared.dim },
  },
  play: { control: "position", rate: 8 },
  route: "turning",

  values: (data, { pair }) => ({
    pair: number(pair),
    wavelength: tokens(data.wavelength),
    turns: number(LAST / data.wavelength, 3),
  }),

  formula: (data, { pair, dim, base, position, x0, x1 }) =>
    lines(
      [sub(i("θ"), i("j")), row(o("="), sup(i("base"), row(o("−"), n(2), i("j"), o("/"), i("d"))), o("="), sup(n(base, 6), row(o("−"), n(2 * pair), o("/"), n(dim))), o("="), n(data.theta))],
      [row(n(2), i("π"), o("/"), sub(i("θ"), i("j"))), row(o("="), n(tokens(data.wavelength)), text(t` tokens for a turn`))],
      [row(i("m"), sub(i("θ"), i("j"))), row(o("="), n(position), o("·"), n(data.theta), o("="), n(data.angle), text(t` radians`))],
      [matrix([[look(0, sub(i("y"), n(0)))], [look(1, sub(i("y"), n(1)))]]), row(o("="), matrix([[cosine(""), cosine("−", "sin")], [cosine("", "sin"), cosine("")]]), matrix([[sub(i("x"), n(0))], [sub(i("x"), n(1))]]))],
      ["", row(o("="), matrix([[n(fixed(data.cos, 2)), n(fixed(-data.sin, 2))], [n(fixed(data.sin, 2)), n(fixed(data.cos, 2))]]), matrix([[n(fixed(x0, 2))], [n(fixed(x1, 2))]]), o("="), matrix([[look(0, n(fixed(data.turned[0], 3)))], [look(1, n(fixed(data.turned[1], 3)))]]))],
    ),

  draw(data, state, width) {
    const { unit, centre, left, top, chart, size, height } = layout(width, state);
    const { position, x0, x1 } = state;
    const fine = (data.waves[0].length - 1) / LAST;
    const place = ([a, b]) => [centre.x + a * unit, centre.y - b * unit];
    const at = (m) => [data.waves[0][m * fine], data.waves[1][m * fine]];
    const [tip, start] = [place(data.turned), place([x0, x1])];
    const trail = [];
    for (let age = Math.min(TRAIL, position); age >= 1; age--) {
      const [x, y] = place(at(position - age));
      trail.push(circle(x, y, 4.5, { class: "tip", opacity: 0.75 * (1 - age / (TRAIL + 1)) }));
    }
    const clock = group(
      {},
      line(centre.x - size / 2, centre.y, centre.x + size / 2, centre.y, { class: "grid" }),
      line(centre.x, centre.y - size / 2, centre.x, centre.y + size / 2, { class: "grid" }),
      circle(centre.x, centre.y, Math.hypot(x0, x1) * unit, { class: "dial", "fill-opacity": 0.6 }),
      label(centre.x, 13, t`the pair, at position m`, { anchor: "middle", class: "name" }),
      // What the waves show: the arrow's way to the right, and up.
      line(centre.x, centre.y, tip[0], centre.y, { class: "line s0" }),
      line(tip[0], centre.y, ...tip, { class: "line s1" }),
      group({ class: "s7" }, trail),
      group({ class: "faded handle", "data-drag": "x" }, line(centre.x, centre.y, ...start, { class: "line" }), circle(...start, 18, { fill: "transparent" }), circle(...start, 6, { class: "knob" })),
      arrow(centre.x, centre.y, ...tip, { class: "arrow s7" }),
      label(start[0] + (x0 < 0 ? -11 : 11), start[1] + (x1 < 0 ? 16 : -7), "m = 0", { anchor: x0 < 0 ? "end" : "start" }),
    );
    const points = (wave) => wave.map((value, step) => [step / fine, value]);
    const dot = (feature) => circle(chart.x(position), chart.y(data.turned[feature]), 5, { class: `knob s${feature}` });
    const first = chart.x(Math.max(0, position - TRAIL));
    const waves = group(
      { transform: `translate(${left} ${top})` },
      legend([[0, t`first feature, y₀`], [1, t`second feature, y₁`]], chart.left, 13, width - left).content,
      rect(first, chart.top, chart.x(position) - first, chart.bottom - chart.top, { class: "range" }),
      chart.axes,
      series(chart, points(data.waves[0]), 0),
      series(chart, points(data.waves[1]), 1),
      line(chart.x(position), chart.top, chart.x(position), chart.bottom),
      dot(0),
      dot(1),
      rect(chart.left, chart.top, chart.right - chart.left, chart.bottom - chart.top, { class: "handle", "data-drag": "position", fill: "transparent", style: "touch-action: pan-y" }),
    );
    return { height, content: clock + waves };
  },

  drag: {
    x(point, { width, state }) {
      const { unit, centre } = layout(width, state);
      const [a, b] = [(point.x - centre.x) / unit, (centre.y - point.y) / unit];
      const shrink = Math.min(1, LONGEST / Math.hypot(a, b));
      const round = (value) => Math.round(value * shrink * 100) / 100;
      return { x0: round(a), x1: round(b) };
    },
    position(point, { width, state }) {
      const { chart, left } = layout(width, state);
      return { position: Math.max(0, Math.min(LAST, Math.round(chart.x.invert(point.x - left)))) };
    },
  },

  table: (data) => ({
    columns: ["position", "first", "second"],
    rows: Array.from({ length: LAST + 1 }, (_, m) => [m, ...data.waves.map((wave) => wave[(m * (wave.length - 1)) / LAST])]),
  }),

  describe: (data, { pair, position }) => t`Pair ${pair} as an arrow, turned by ${number(data.angle)} radians at position ${position}, and its two features as waves against the position, now ${fixed(data.turned[0], 2)} and ${fixed(data.turned[1], 2)}.`,
};

const tokens = (value) => (value < 1e3 ? number(value) : count(value));
const cosine = (sign, name = "cos") => row(sign ? o(sign) : "", i(name), i("m"), i("θ"));
