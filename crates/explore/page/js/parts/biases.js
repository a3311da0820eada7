// What encodings add to the scores, beside what rotary embedding does to them.
import { cellAt, heat } from "../chart.js";
import { range, shared } from "../controls.js";
import { fixed, number } from "../format.js";
import { frac, i, lines, look, n, o, row, root, sub, text as words } from "../math.js";
import { circle, group, label, line } from "../svg.js";
import { tall } from "./decay/about.js";
import { kept } from "./decay/kept.js";
import { listed, t } from "../words.js";

const NAMES = {
  t5: ["T5", t`+ number of the bucket`],
  alibi: ["ALiBi", t`− slope × distance`],
  kerple: ["KERPLE", t`− log of the distance`],
  shaw: ["Shaw", t`+ query · vector`],
  alike: [t`rotary, alike`, t`part of the score left`],
  random: [t`rotary, random`, t`the score`],
};

/** Where the pictures stand. */
function layout(width) {
  const across = width >= 540 ? 3 : 2;
  const gap = 18;
  const size = (width - gap * (across - 1) - 4) / across;
  const box = (index) => ({ x: 2 + (index % across) * (size + gap), y: 46 + Math.floor(index / across) * (size + 84), width: size, height: size });
  return { box, size, height: Math.ceil(6 / across) * (size + 84) };
}

/** The matrices, drawn: a value for each distance, [2 · length − 1]. */
const pictures = Object.keys(NAMES).map(() =>
  kept((values, length, box, reach) => {
    const row = (query) => Array.from({ length }, (_, key) => values[query - key + (values.length - 1) / 2]);
    return heat(Array.from({ length }, (_, query) => row(query)), { ...box, low: -reach, high: reach });
  }),
);

const clamp = (position, length) => Math.max(0, Math.min(length - 1, position));
const within = ({ m, n, length, ...rest }) => ({ m: clamp(m, length), n: clamp(n, length), length, ...rest });

export default {
  id: "biases",
  title: t`Adding to the score, or turning`,
  text: t`<p>Other encodings leave q and k alone and change the score of each query m with each key n. Each picture shows by how much,
    for every query (down) and key (across). All depend on m − n alone, so each is made of diagonals. Blue adds, orange takes away. Drag the cross.</p>
    <p><strong>T5</strong> sorts distances into buckets and adds one learned number for each; far distances share wide buckets, before
    and after have their own. <strong>ALiBi</strong> takes a fixed slope times the distance off; each head has its slope.
    <strong>KERPLE</strong> takes a logarithm off, which flattens. <strong>Shaw</strong> adds the product of the query with a vector
    for the distance, clipped at ± k: all distances beyond share one vector.</p>
    <p><strong>Rotary</strong> adds nothing. It turns q and k, so that what is left of the score of the same two vectors depends on
    the distance: a factor for each pair of features. One picture is for q and k that are alike, one for two drawn at random. Only T5,
    Shaw and rotary (unless q and k are alike) tell before from after.</p>
    <p class="soft">What a model learns is made up here: T5’s numbers, KERPLE’s r₁ = 1 and r₂ = ½, and the query and key of Shaw and the
    last picture, which are drawn at random and are the same at every position. Shaw’s vectors are sines and cosines, as in NEZHA.</p>`,
  controls: {
    m: range(t`query at m`, 40, 0, 127),
    n: range(t`key at n`, 16, 0, 127),
    head: range(t`head, of 8 (T5, ALiBi)`, 3, 1, 8),
    reach: range(t`Shaw’s clip bound k`, 12, 1, 32),
    dim: { ...shared.dim },
    base: { ...shared.base },
    length: range(t`tokens`, 64, 8, 128),
    seed: range(t`another query and key (Shaw, rotary)`, 2, 1, 99),
  },
  route: "biases",
  ask: within,

  formula: (data, state) => {
    const { head, reach } = state;
    const distance = row(i("m"), o("−"), i("n"));
    const of = (name) => data.maps.find((map) => map.name === name).here;
    const value = (name, series = 0) => row(o("="), look(series, n(fixed(of(name), 4))));
    return lines(
      [distance, row(o("="), n(data.distance))],
      [words("T5"), row(sub(i("b"), row(words(t`bucket `), n(data.bucket))), value("t5"))],
      [words("ALiBi"), row(o("−"), sup2(2, head), o("·"), n(Math.abs(data.distance)), value("alibi"))],
      [words("KERPLE"), row(o("−"), n(data.kernel[0]), o("·"), i("ln"), o("("), n(1), o("+"), n(data.kernel[1]), o("·"), n(Math.abs(data.distance)), o(")"), value("kerple"))],
      [words("Shaw"), tall(frac(row(i("q"), o("·"), sub(i("R"), row(n(data.clipped)))), root(i("d"))), value("shaw"), Math.abs(data.distance) > reach ? words(t` (clipped)`) : "")],
      [words(t`rotary`), tall(frac(n(2), i("d")), o("∑"), i("cos"), o("("), distance, o(")"), sub(i("θ"), i("j")), value("alike"))],
    );
  },

  draw(data, state, width) {
    const { m, n, length } = within(state);
    const at = layout(width);
    const cell = at.size / length;
    const maps = data.maps.map((map, index) => {
      const box = at.box(index);
      const [low, high] = [Math.min(...map.values), Math.max(...map.values)];
      const [title, about] = NAMES[map.name];
      const [cx, cy] = [box.x + (n + 0.5) * cell, box.y + (m + 0.5) * cell];
      return group(
        {},
        label(box.x, box.y - 24, title, { class: "heading" }),
        label(box.x, box.y - 8, about),
        group({ class: "handle", "data-drag": `map${index}` }, pictures[index](`${width} ${map.values}`, map.values, length, box, Math.max(-low, high) || 1), line(box.x, cy, box.x + box.width, cy), line(cx, box.y, cx, box.y + box.height), group({ class: "s7" }, circle(cx, cy, 6, { class: "knob" }))),
        label(box.x, box.y + box.height + 17, fixed(map.here, 3), { class: "strong" }),
        label(box.x + box.width, box.y + box.height + 17, `${number(low, 2)} … ${number(high, 2)}`, { anchor: "end" }),
      );
    });
    return { height: at.height - 20, content: maps.join("") };
  },

  drag: Object.fromEntries(
    Object.keys(NAMES).map((_, index) => [
      `map${index}`,
      (point, { state, width }) => {
        const box = layout(width).box(index);
        const place = (value) => clamp(Math.floor((value / box.width) * state.length), state.length);
        return { m: place(point.y - box.y), n: place(point.x - box.x) };
      },
    ]),
  ),

  hover(point, { state, data, width }) {
    const at = layout(width);
    for (const [index, map] of data.maps.entries()) {
      const cell = cellAt(point, at.box(index), state.length, state.length);
      const value = cell && map.values[cell[0] - cell[1] + (map.values.length - 1) / 2];
      if (Number.isFinite(value)) return t`${NAMES[map.name][0]}, query ${cell[0]}, key ${cell[1]}: ${fixed(value, 4)}`;
    }
    return "";
  },

  html: (data) => t`<table><thead><tr><th>at m − n = ${number(data.distance)}</th><th>here</th><th>m and n exchanged</th><th>10 further</th></tr></thead>
    <tbody>${data.maps.map((map) => `<tr><th>${NAMES[map.name][0]}</th><td>${fixed(map.here, 3)}</td><td>${fixed(map.exchanged, 3)}</td><td>${fixed(map.further, 3)}</td></tr>`).join("")}</tbody></table>`,

  table: (data) => {
    const last = (data.maps[0].values.length - 1) / 2;
    return { columns: ["distance", ...data.maps.map((map) => map.name)], rows: data.maps[0].values.map((_, index) => [index - last, ...data.maps.map((map) => map.values[index])]) };
  },

  describe: (data) => t`Six pictures of what encodings do to scores. At distance ${data.distance}: ${listed(data.maps.map((map) => `${NAMES[map.name][0]} ${fixed(map.here, 3)}`))}.`,
};

/** A power of two with a negative exponent. */
const sup2 = (base, exponent) => `<msup>${n(base)}${row(o("−"), n(exponent))}</msup>`;
