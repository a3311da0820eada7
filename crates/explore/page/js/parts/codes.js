// Four codes of a position side by side: a share of the length, the number itself, its binary digits, sines and cosines.
import { frame, series } from "../chart.js";
import { choice, range } from "../controls.js";
import { fixed, number } from "../format.js";
import { frac, i, lines, look, n, o, root, row, sub, sum, sup, text } from "../math.js";
import { coloured } from "../sentence.js";
import { circle, group, label, line, measure, polyline, rect } from "../svg.js";
import { t } from "../words.js";

/** The colours of the codes. */
const LOOK = { scalar: 4, integer: 6, binary: 1, sinusoidal: 0, cosine: 5 };

/** The rows from top to bottom, and where positions stand. */
function layout(data, width) {
  const [left, right] = width < 480 ? [56, 58] : [84, 104];
  const length = data.scalar.length;
  const place = (position) => left + (position / (length - 1)) * (width - left - right);
  const invert = (x) => Math.round(((x - left) / (width - left - right)) * (length - 1));
  let y = 62;
  const band = (height, gap = 4) => {
    y += gap;
    const at = { y, height };
    y += height;
    return at;
  };
  const heading = () => (y += 28);
  const rows = { scalarAt: heading(), scalar: band(36), integerAt: heading(), integer: band(36), binaryAt: heading() };
  rows.binary = data.binary[0].map(() => band(17, 3)).reverse();
  rows.sinusoidalAt = heading();
  rows.waves = data.waves.slice(0, Math.max(4, data.binary[0].length + 1)).map(() => band(30, 3)).reverse();
  return { left, right, place, invert, rows, chart: y + 14 };
}

/** The last position of the text, as the slider's m may be beyond it. */
const clamp = (m, length) => Math.max(0, Math.min(length - 1, m));
/** The number in binary digits, the highest first. */
const digits = (code) => [...code].reverse().join("");

export default {
  id: "codes",
  title: t`How to write down a position`,
  text: t`<p>A model needs a code for each position, and there are simple ones. The <em>share</em> m/L stays between 0 and 1, but a
    step of one word is 1/L: it depends on the length. Position <output data-value="m"></output> is
    <output data-value="share"></output> in a text of <output data-value="length"></output> words and
    <output data-value="half"></output> in one of <output data-value="double"></output>.</p>
    <p>The <em>number</em> m takes equal steps, but grows without bound: a longer text has numbers that no training text had.</p>
    <p><em>Binary digits</em> are 0 or 1, however large m is. But they jump: from <output data-value="from"></output> to
    <output data-value="to"></output>, which are neighbours, <output data-value="flips"></output>
    change<span data-value="far"></span>.</p>
    <p><strong>Sines and cosines are the smooth form of the digits.</strong> Each digit alternates half as fast as the one below it;
    each pair of a sine and a cosine turns more slowly than the one before, here by a factor of
    <output data-value="factor"></output>. From any position to the next the code moves equally far:
    <output class="big" data-value="step"></output>.</p>`,
  controls: {
    m: range(t`position m`, 7, 0, 63, { param: "position" }),
    length: range(t`length L`, 16, 4, 64),
    width: range(t`features of the sinusoidal code, d`, 26, 2, 32, { step: 2 }),
    curve: choice(t`compare`, "step", [["step", t`each position with the next`], ["from", t`position m with all`]]),
  },
  route: "codes",
  ask: ({ m, length, width }) => ({ position: clamp(m, length), length, width }),

  values(data, state) {
    const length = data.scalar.length;
    const m = clamp(state.m, length);
    const from = Math.min(m, length - 2);
    const flips = Math.round(data.steps.binary[from] ** 2);
    const alike = data.distances.binary.map((away, other) => (Math.round(away) === 1 ? other : m));
    const far = alike.reduce((far, other) => (Math.abs(other - m) > Math.abs(far - m) ? other : far), m);
    return {
      m: String(m),
      share: number(data.scalar[m]),
      length: String(length),
      half: number(data.scalar[m] / 2),
      double: String(2 * length),
      from: String(from),
      to: String(from + 1),
      flips: t`${flips} of ${data.binary[0].length} digits`,
      far: Math.abs(far - m) > 1 ? t`, and from ${m} to ${far} a single one` : "",
      factor: data.omega.length > 1 ? number(data.omega[0] / data.omega[1], 3) : "–",
      step: number(data.steps.sinusoidal[from]),
    };
  },

  formula(data, state) {
    const length = data.scalar.length;
    const m = clamp(state.m, length);
    const from = Math.min(m, length - 2);
    const omega = sub(i("ω"), i("i"));
    const step = (name) => row(o("|"), sub(i(name), n(from + 1)), o("−"), sub(i(name), n(from)), o("|"));
    return lines(
      [row(frac(i("m"), i("L"))), row(o("="), frac(n(m), n(length)), o("="), look(LOOK.scalar, n(data.scalar[m])))],
      [i("m"), row(o("="), look(LOOK.integer, n(m)), o("="), look(LOOK.binary, sub(n(digits(data.binary[m])), n(2))))],
      [step("b"), row(o("="), root(n(Math.round(data.steps.binary[from] ** 2))), o("="), look(LOOK.binary, n(data.steps.binary[from])))],
      [sub(i("p"), i("m")), row(o("="), o("("), text("…"), o(","), text("sin "), i("m"), omega, o(","), text("cos "), i("m"), omega, o(","), text("…"), o(")"))],
      [omega, row(o("="), sup(n("10000"), row(o("−"), n(2), i("i"), o("/"), n(data.omega.length * 2))))],
      [step("p"), row(o("="), root(row(sum(i("i")), o("("), n(2), o("−"), n(2), text("cos "), omega, o(")"))), o("="), look(LOOK.sinusoidal, n(data.steps.sinusoidal[from])))],
    );
  },

  draw(data, { m: wanted, curve }, width) {
    const length = data.scalar.length;
    const m = clamp(wanted, length);
    const at = layout(data, width);
    const { rows, place } = at;
    const end = width - at.right;
    const value = (y, words, look) => coloured(look, end + 12, y + 4, words);
    const name = (y, words) => label(at.left - 8, y + 4, words, { anchor: "end" });
    const ground = ({ y, height }) => rect(at.left - 4, y, end - at.left + 8, height, { class: "ground" });
    // On paper of its own, where the line of m would run through it.
    const heading = (y, words) =>
      label(0, y - 4, words, { class: "heading", style: "stroke: var(--paper); stroke-width: 5px" }) + label(0, y - 4, words, { class: "heading" });
    const rising = (band, values, top, look) => {
      const up = (value) => band.y + band.height - 3 - (value / top) * (band.height - 6);
      const drawn = polyline(values.map((value, position) => [place(position), up(value)]));
      const ends = name(band.y + 6, top) + name(band.y + 30, 0);
      return ground(band) + ends + group({ class: `s${look}` }, drawn, circle(place(m), up(values[m]), 4.5, { class: "dot" }));
    };
    const twice = [[place(0), rows.scalar.y + 33], [place(length - 1), rows.scalar.y + 33 - 15 * data.scalar[length - 1]]];
    const content = [
      rising(rows.scalar, data.scalar, 1, LOOK.scalar),
      value(rows.scalar.y + 12, number(data.scalar[m], width < 480 ? 3 : 4), LOOK.scalar),
      // The same for a text twice as long.
      group({ class: `s${LOOK.scalar}` }, polyline(twice, { "stroke-dasharray": "4 4", style: "stroke-width: 1.2" })),
      label(end + 12, rows.scalar.y + 34, `L = ${2 * length}`),
      rising(rows.integer, data.scalar.map((_, position) => position), length - 1, LOOK.integer),
      value(rows.integer.y + 18, m, LOOK.integer),
    ];
    const half = (end - at.left) / (length - 1) / 2;
    rows.binary.forEach((band, digit) => {
      // Ones side by side are one bar.
      const edge = (position) => Math.max(at.left - 4, Math.min(end + 4, place(position) - half));
      const cells = data.binary.map((code, position) => {
        if (!code[digit] || data.binary[position - 1]?.[digit]) return "";
        const next = data.binary.findIndex((other, after) => after > position && !other[digit]);
        return rect(edge(position), band.y, edge(next < 0 ? length : next) - edge(position), band.height, { class: "token" });
      });
      content.push(ground(band), group({ class: `s${LOOK.binary}` }, cells), name(band.y + 8.5, 2 ** digit), value(band.y + 8.5, data.binary[m][digit], LOOK.binary));
    });
    rows.waves.forEach((band, pair) => {
      const middle = band.y + band.height / 2;
      const points = (values) => values.map((value, point) => [place((point / (values.length - 1)) * (length - 1)), middle - value * (band.height / 2 - 3)]);
      const [sin, cos] = [data.sinusoidal[m][2 * pair], data.sinusoidal[m][2 * pair + 1]];
      content.push(
        ground(band) +
          group({ class: `s${LOOK.cosine}` }, polyline(points(data.waves[pair].cos), { style: "stroke-width: 1" })) +
          group({ class: `s${LOOK.sinusoidal}` }, polyline(points(data.waves[pair].sin)), circle(place(m), middle - sin * (band.height / 2 - 3), 4.5, { class: "dot" })) +
          name(middle, t`pair ${pair}`) +
          value(middle, width < 480 ? fixed(sin, 2) : `${fixed(sin, 2)}, ${fixed(cos, 2)}`, LOOK.sinusoidal),
      );
    });
    content.push(
      line(place(m), 44, place(m), at.chart - 10, { class: "level" }),
      heading(rows.scalarAt, t`share of the length, m/L`),
      heading(rows.integerAt, t`the number, m`),
      heading(rows.binaryAt, t`its binary digits`),
      heading(rows.sinusoidalAt, width < 480 ? t`sines, cosines (thin)` : t`sines, and cosines (thin), of the first ${rows.waves.length} of ${data.omega.length} pairs`),
      ruler(at, length, m),
      distances(data, at, m, curve, width),
    );
    return { height: at.chart + 190, content: content.join("") };
  },

  drag: { m: (point, { data, width }) => ({ m: clamp(layout(data, width).invert(point.x), data.scalar.length) }) },

  hover(point, { data, width }) {
    const at = layout(data, width);
    const m = at.invert(point.x);
    if (m < 0 || m >= data.scalar.length || point.y > at.chart) return;
    return t`position ${m}: share ${number(data.scalar[m])}, digits ${digits(data.binary[m])}, first sine ${fixed(data.sinusoidal[m][0], 3)}`;
  },

  setup(section, { now, set }) {
    // No position lies beyond the text.
    const keep = () => now().m >= now().length && set({ m: now().length - 1 });
    for (const event of ["input", "change"]) section.querySelector(".controls").addEventListener(event, keep);
  },

  table: (data) => ({
    columns: ["position", "share", "digits", "step_share", "step_binary", "step_sinusoidal", ...data.sinusoidal[0].map((_, feature) => `p${feature}`)],
    rows: data.scalar.map((share, m) => [m, share, digits(data.binary[m]), data.steps.scalar[m], data.steps.binary[m], data.steps.sinusoidal[m], ...data.sinusoidal[m]]),
  }),

  describe(data, state) {
    const m = clamp(state.m, data.scalar.length);
    return t`Four codes of the positions 0 to ${data.scalar.length - 1}. Position ${m} has the share ${number(data.scalar[m])} and the digits ${digits(data.binary[m])}.`;
  },
};

/** The positions, and the handle that chooses one. */
function ruler(at, length, m) {
  const every = [1, 2, 4, 8, 16].find((step) => at.place(step) - at.place(0) >= 24) ?? 16;
  const ticks = [];
  for (let position = 0; position < length; position++) {
    const isLabelled = position % every === 0 && Math.abs(at.place(position) - at.place(m)) > 20;
    ticks.push(line(at.place(position), 40, at.place(position), 44));
    if (isLabelled) ticks.push(label(at.place(position), 58, position, { anchor: "middle" }));
  }
  const x = at.place(m);
  const handle = group(
    { class: "s7 handle", "data-drag": "m" },
    rect(x - 29, 2, 58, 30, { rx: 6, class: "token" }),
    label(x, 22, `m = ${m}`, { anchor: "middle", class: "on", style: "font-size: 13px" }),
    line(x, 32, x, 40, { class: "line" }),
  );
  return line(at.place(0), 40, at.place(length - 1), 40) + ticks.join("") + handle;
}

/** How far codes are from each other. */
function distances(data, at, m, curve, width) {
  const length = data.scalar.length;
  const isStep = curve === "step";
  const of = isStep ? data.steps : data.distances;
  const shown = isStep ? ["scalar", "integer", "binary", "sinusoidal"] : ["binary", "sinusoidal"];
  const names = { scalar: t`share`, integer: t`number`, binary: t`digits`, sinusoidal: width < 480 ? t`sines` : t`sines, cosines` };
  const top = Math.max(...shown.flatMap((name) => of[name])) * 1.08;
  let left = 0;
  const legend = shown.map((name) => {
    const stroke = line(left, at.chart + 29, left + 14, at.chart + 29, { class: "line" });
    const drawn = group({ class: `s${LOOK[name]}` }, stroke, label(left + 19, at.chart + 33, names[name], { class: "name" }));
    left += measure(names[name]) + 33;
    return drawn;
  });
  const x = { domain: [0, length - 1], label: isStep ? t`position` : t`other position` };
  const chart = frame({ x, y: { domain: [0, top] }, width, height: 148, left: at.left, right: at.right, top: 8 });
  const points = (values) => values.map((value, position) => [isStep ? position + 0.5 : position, value]);
  const marked = isStep ? Math.min(m, length - 2) : m;
  const dot = (name) => circle(chart.x(points(of[name])[marked][0]), chart.y(of[name][marked]), 4.5, { class: "dot" });
  const lines = shown.map((name) => series(chart, points(of[name]), LOOK[name]));
  const dots = shown.map((name) => group({ class: `s${LOOK[name]}` }, dot(name)));
  const title = isStep ? t`how far each code moves with a step` : t`how far each code is from that of ${m}`;
  return label(0, at.chart + 12, title, { class: "heading" }) + legend.join("") + group({ transform: `translate(0 ${at.chart + 42})` }, chart.axes, lines, dots);
}
