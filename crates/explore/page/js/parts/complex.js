// A complex number as a point, as a matrix and as a rotation.
import { range } from "../controls.js";
import { fixed, number } from "../format.js";
import { angle as bracket, i, lines, look, matrix, n, o, paren, row, sup, text } from "../math.js";
import { coloured } from "../sentence.js";
import { arc, arrow, circle, group, label, line, px as pixel, tag } from "../svg.js";
import { t } from "../words.js";

/** How far the plane reaches, and how far z and k may go. */
const [REACH, LIMIT] = [2.4, 1.6];
/** The colours of z, of z turned, and of k. */
const [Z, TURNED, K] = [0, 1, 3];

const degrees = (radians) => (radians * 180) / Math.PI;

/** Where the plane and the square are: side by side if there is room. */
function layout(width) {
  const isBeside = width >= 620;
  const size = Math.min(isBeside ? width * 0.62 : width, 460);
  const side = isBeside ? Math.min(300, width - size - 28) : Math.min(width, 300);
  const plane = { x: size / 2, y: size / 2, unit: size / 2 / REACH, size };
  const square = isBeside ? { left: size + 28, top: (size - side) / 2, side } : { left: (width - side) / 2, top: size + 34, side };
  return { plane, square, height: isBeside ? Math.max(size, side + 40) : size + 34 + side + 8 };
}

const clamp = (value) => Math.max(-LIMIT, Math.min(LIMIT, Number(value.toFixed(2))));

/** A point of the figure as a number of the plane. */
function numberAt(point, width) {
  const { x, y, unit } = layout(width).plane;
  return [(point.x - x) / unit, (y - point.y) / unit];
}

export default {
  id: "complex",
  title: t`A complex number is a rotation`,
  text: t`<p>Two features of a query are a point (x, y) of the plane, or one complex number z = x + iy. Drag <em>z</em>, or drag what it
    becomes when it is multiplied by e<sup>iθ</sup> = cos θ + i sin θ: <strong>a turn by θ that keeps the length.</strong> A
    matrix does the same to the pair (x, y), and that is all that rotary embedding does to a pair of features.</p>
    <p>By length and angle, z = r (cos φ + i sin φ) with r = <output data-value="radius"></output> and
    φ = atan2(y, x) = <output data-value="phase"></output>; arctan(y/x) would give <output data-value="arctangent"></output>: it
    does not tell a point from the one opposite (drag z to the left half).</p>
    <p>Every z is a matrix, which turns by φ and stretches by r. The unit square becomes a square of side r, so the determinant
    of the matrix is its area, |z|² = <output data-value="determinant"></output>.</p>
    <p>The conjugate k* has the angle of k with the other sign. In z·k* the angles are subtracted, and the real part is the
    inner product ⟨z, k⟩ = <output class="big" data-value="inner"></output>. With e<sup>imθ</sup> in z and e<sup>inθ</sup> in k,
    what is left of both turns is e<sup>i(m−n)θ</sup>.</p>`,
  controls: {
    x: range(t`real part of z, x`, 1.5, -LIMIT, LIMIT, { step: 0.01 }),
    y: range(t`imaginary part of z, y`, 0.5, -LIMIT, LIMIT, { step: 0.01 }),
    degrees: range(t`angle θ, in degrees`, 50, -180, 180),
    u: range(t`real part of k`, 0.5, -LIMIT, LIMIT, { step: 0.01 }),
    v: range(t`imaginary part of k`, -1, -LIMIT, LIMIT, { step: 0.01 }),
  },
  route: "complex",
  play: { control: "degrees", rate: 45 },

  values: (data) => ({
    radius: number(data.radius),
    phase: `${fixed(degrees(data.phase), 1)}°`,
    arctangent: data.arctangent === null ? t`nothing, as x is 0` : `${fixed(degrees(data.arctangent), 1)}°`,
    determinant: number(data.determinant),
    inner: fixed(data.inner, 4),
  }),

  formula(data, { x, y, u, v, degrees: turn }) {
    const f = (value, digits = 3) => n(fixed(value, digits));
    const phase = paren(n(`${fixed(degrees(data.phase), 1)}°`));
    const z = i("z");
    const unit = sup(i("e"), row(i("i"), i("θ")));
    const square = (base) => sup(base, n(2));
    const [re, im] = data.turned;
    const turning = matrix([[text("cos θ"), row(o("−"), text("sin θ"))], [text("sin θ"), text("cos θ")]]);
    const form = matrix([[i("x"), row(o("−"), i("y"))], [i("y"), i("x")]]);
    const column = ([a, b], series) => look(series, matrix([[f(a)], [f(b)]]));
    const product = (a, b) => row(paren(n(a)), o("·"), paren(n(b)));
    return lines(
      [z, row(o("="), look(Z, n(x), o(y < 0 ? "−" : "+"), n(Math.abs(y)), i("i")))],
      ["", row(o("="), f(data.radius), o("("), text("cos"), phase, o("+"), i("i"), text(" sin"), phase, o(")"))],
      [row(z, unit), row(o("="), turning, matrix([[i("x")], [i("y")]]), text(", θ = "), n(`${number(turn)}°`))],
      ["", row(o("="), matrix(data.rotation.map((line) => line.map((value) => f(value)))), column([x, y], Z))],
      ["", row(o("="), column(data.multiplied, TURNED), o("="), look(TURNED, f(re), o(im < 0 ? "−" : "+"), f(Math.abs(im)), i("i")))],
      [row(text("det "), form), row(o("="), square(i("x")), o("+"), square(i("y")), o("="), square(row(o("|"), z, o("|"))), o("="), f(data.determinant))],
      [row(text("Re "), o("["), z, sup(i("k"), o("*")), o("]")), row(o("="), product(number(x), number(u)), o("+"), product(number(y), number(v)))],
      ["", row(o("="), look(K, f(data.product[0])), o("="), bracket(z, o(","), i("k")))],
    );
  },

  draw(data, { x, y, u, v }, width) {
    const { plane, square, height } = layout(width);
    const at = ([a, b]) => [plane.x + a * plane.unit, plane.y - b * plane.unit];
    const cross = (value, attributes) => line(...at([value, -REACH]), ...at([value, REACH]), attributes) + line(...at([-REACH, value]), ...at([REACH, value]), attributes);
    const names = ["−2", "2"].map((name, side) => {
      const [x, y] = at([4 * side - 2, 4 * side - 2]);
      return label(x + 4, plane.y + 15, name) + label(plane.x - 6, y - 4, `${name}i`, { anchor: "end" });
    });
    const hand = (to, series, name, handle) => {
      const [px, py] = at(to);
      const away = Math.hypot(...to) || 1;
      const [lx, ly] = [px + (to[0] / away) * 19, py - (to[1] / away) * 17 + 4];
      const anchor = to[0] < -0.3 ? "end" : to[0] > 0.3 ? "start" : "middle";
      const inside = { x: Math.max(38, Math.min(plane.size - 38, lx)), y: Math.max(14, Math.min(plane.size - 4, ly)) };
      const words = tag("text", { ...inside, "text-anchor": anchor, style: "fill: var(--c); font-weight: 700; font-size: 14px" }, name);
      const knob = group({ class: "handle", "data-drag": handle }, circle(px, py, 16, { fill: "transparent" }), circle(px, py, 7, { class: "knob" }));
      return group({ class: `s${series}` }, arrow(plane.x, plane.y, px, py), words, knob);
    };
    const round = (radius, from, to, series, name) => {
      if (Math.abs(to - from) < 0.02) return "";
      const drawn = group({ class: `s${series}` }, arc(plane.x, plane.y, radius, from, to, { class: "line" }));
      if (Math.abs(to - from) < 0.25) return drawn;
      const [middle, away] = [(from + to) / 2, radius + 11];
      const [x, y] = [plane.x + away * Math.cos(middle), plane.y - away * Math.sin(middle) + 4];
      return drawn + coloured(series, x, y, name, { anchor: "middle", style: "fill: var(--c); font-size: 13px" });
    };
    const length = data.radius * plane.unit;
    const [near, far] = [Math.min(26, length * 0.5), Math.min(50, length * 0.8)];
    const arcs = length < 24 ? "" : round(near, 0, data.phase, Z, "φ") + round(far, data.phase, data.phase + data.angle, TURNED, "θ");
    const dashes = line(...at([x, 0]), ...at([x, y]), { class: "level" }) + line(...at([0, y]), ...at([x, y]), { class: "level" });
    const content = [
      ...[-2, -1, 1, 2].map((value) => cross(value, { class: "grid" })),
      cross(0),
      ...names,
      circle(plane.x, plane.y, plane.unit, { class: "level", fill: "none" }),
      circle(plane.x, plane.y, length, { class: "grid", fill: "none" }),
      dashes,
      arcs,
      hand([u, v], K, "k", "k"),
      hand(data.turned, TURNED, `z·e${tag("tspan", { dy: -5, style: "font-size: 11px" }, "iθ")}`, "turned"),
      hand([x, y], Z, "z", "z"),
      area(data, square),
    ];
    return { height, content: content.join("") };
  },

  drag: {
    z(point, { width }) {
      const [x, y] = numberAt(point, width).map(clamp);
      return { x, y };
    },
    k(point, { width }) {
      const [u, v] = numberAt(point, width).map(clamp);
      return { u, v };
    },
    turned(point, { width, data }) {
      const [a, b] = numberAt(point, width);
      const turn = Math.round(degrees(Math.atan2(b, a) - data.phase));
      return { degrees: ((((turn + 180) % 360) + 360) % 360) - 180 };
    },
  },

  setup(section, { now, set }) {
    // What is typed or linked to stays in the plane.
    const keep = () => {
      const { x, y, u, v } = now();
      set({ x: clamp(x), y: clamp(y), u: clamp(u), v: clamp(v) });
    };
    section.querySelector(".controls").addEventListener("change", keep);
    keep();
  },

  table: (data, { x, y, degrees, u, v }) => ({
    columns: ["name", "real", "imaginary"],
    rows: [
      ...[["z", x, y], ["turned", ...data.turned], ["k", u, v], ["z·k*", ...data.product]],
      ...[["degrees", degrees, ""], ["r", data.radius, ""], ["phi", data.phase, ""], ["determinant", data.determinant, ""]],
    ],
  }),

  describe: (data, { x, y, degrees }) =>
    t`The plane with z = ${number(x)} + ${number(y)}i, z turned by ${degrees} degrees to ${fixed(data.turned[0], 3)} + ${fixed(data.turned[1], 3)}i, ` +
    t`and k. Beside it the unit square, which z as a matrix makes ${number(data.determinant)} times as large.`,
};

/** The unit square and what the matrix of z makes of it. */
function area(data, { left, top, side }) {
  const [[x], [y]] = data.matrix;
  const corners = [[0, 0], [x, y], [x - y, y + x], [-y, x]];
  const span = (axis) => [Math.min(...corners.map((corner) => corner[axis])), Math.max(1, ...corners.map((corner) => corner[axis]))];
  const [[lowX, highX], [lowY, highY]] = [span(0), span(1)];
  const room = side - 64;
  const unit = Math.min(90, room / Math.max(highX - lowX, highY - lowY));
  const origin = [left + side / 2 - ((lowX + highX) / 2) * unit, top + 40 + room / 2 + ((lowY + highY) / 2) * unit];
  const at = ([a, b]) => [origin[0] + a * unit, origin[1] - b * unit];
  const shape = (points, attributes) => tag("polygon", { points: points.map((point) => at(point).map(pixel).join(",")).join(" "), ...attributes });
  return [
    label(left, top + 12, t`the unit square under z`, { class: "heading" }),
    label(left, top + 28, t`area ${number(data.determinant)} = |z|²`),
    shape([[0, 0], [1, 0], [1, 1], [0, 1]], { fill: "none", class: "axis", "stroke-dasharray": "3 3" }),
    group({ class: `s${Z}` }, shape(corners, { class: "band" }), shape(corners, { class: "line" })),
    arrow(...origin, ...at([x, y]), { class: `arrow s${Z}` }),
    arrow(...origin, ...at([-y, x]), { class: "arrow s5" }),
    coloured(Z, left, top + side - 4, `1 → (${number(x)}, ${number(y)})`),
    coloured(5, left + side, top + side - 4, `i → (${number(-y)}, ${number(x)})`, { anchor: "end" }),
  ].join("");
}
