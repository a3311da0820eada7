// Two ways to pair features, side by side on the same numbers: different vectors, and the same scores once the weights are permuted.
import { presets, range, shared, toggle, words } from "../controls.js";
import { fixed, number } from "../format.js";
import { i, lines, look, n, o, row, sub, text } from "../math.js";
import { circle, group, label, line, rect, tag } from "../svg.js";
import { t } from "../words.js";

/** The key that every query is scored with, as many of its features as the query has. */
const KEY = [2, 1, -1, 1, 0.5, -2, 1, 1, -0.5, 1.5, 2, -1, 1, 0.5, -1, 2];
const LIMIT = 8;
/** Half the height of a plot of bars. */
const BAR = 50;

const parse = (text) => text.split(",").map((value) => Number(value.replace("−", "-")));
const vector = (values) => `(${values.map((value) => number(value, 3)).join(", ")})`;

/** Where the panels stand: beside each other if every feature has room for its number. */
function layout(width, dim) {
  const isBeside = width / 2 / dim >= 38;
  const wide = isBeside ? width / 2 - 14 : width;
  const cell = wide / dim;
  const zero = 122 + BAR;
  const heading = zero + BAR + 42;
  const zeroTurned = heading + 26 + BAR;
  const tall = zeroTurned + BAR + 20;
  const panel = (index) => (isBeside ? { x: index * (wide + 28), y: 0 } : { x: 0, y: index * (tall + 18) });
  return { cell, wide, panel, zero, heading, zeroTurned, height: isBeside ? tall : 2 * tall + 18, hasNumbers: cell >= 36 };
}

/** The value of the longest bar: in steps, so that the scale rarely changes while one is dragged. */
function reach({ interleaved, half }) {
  const longest = Math.max(...[...interleaved.q, ...interleaved.turned, ...half.turned].map(Math.abs));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16].find((step) => step >= longest) ?? longest;
}

/** The place of each feature of the interleaved query in what permuted weights make. */
const origin = (feature, dim) => (feature < dim / 2 ? 2 * feature : 2 * (feature - dim / 2) + 1);

export default {
  id: "pairing",
  title: t`Which two features form a pair`,
  text: t`<p>All that was said holds for any way of choosing the pairs, and models choose differently. With d features:</p>
    <p><strong>Interleaved</strong>: neighbours, 2j and 2j+1. The RoFormer paper, GPT-J, GLM, Cohere.<br>
    <strong>Half</strong>: j and j + d/2. GPT-NeoX, Llama, Qwen, MiniMind.<br>
    <strong>Interleaved to half</strong>: neighbours when read, halves when written. DeepSeek, RoFormer_pytorch. Scores are those
    of interleaved; the turned vectors come out in another order.</p>
    <p>On (1, 2, 3, 4) the two make different vectors. On (1, 0, 0, 1) they make the same numbers in another order, because each
    pair gets the same two numbers either way: a test on that vector proves nothing. <span data-value="verdict"></span></p>
    <p>The pairing belongs to the weights. Run under the other one they are another model, and nothing complains. Permute the
    rows of the weights that make queries and keys, so that every pair finds its two numbers in its own places, and
    <strong>the scores are what they were</strong>. (Llama's own code is interleaved; its weights were permuted for Hugging
    Face.)</p>`,
  controls: {
    q: words(t`query, 4 to 16 numbers`, "1,2,3,4", { longest: 160 }),
    m: range(t`query at m`, 2, 0, 64),
    n: range(t`key at n`, 5, 0, 64),
    permuted: toggle(t`permute the weights for half`, false),
    base: { ...shared.base },
  },
  route: "pairing",
  ask: ({ q, m, n, base }) => ({ q: q.replaceAll("−", "-"), k: KEY.slice(0, parse(q).length).join(","), m, n, base }),

  setup(section, { set }) {
    const eight = "1,2,3,4,5,6,7,8";
    presets(section, t`queries to try`, [["1, 2, 3, 4", { q: "1,2,3,4" }], ["1, 0, 0, 1", { q: "1,0,0,1" }], [t`1 to 8`, { q: eight }], [t`16 features`, { q: `${eight},8,7,6,5,4,3,2,1` }]], set);
  },

  values: (data) => ({
    verdict: data.is_alike ? t`The query here is such a vector.` : t`The query here is not such a vector: the results differ.`,
  }),

  formula(data, { m, permuted }) {
    const right = permuted ? data.permuted : data.half;
    const line = (name, { pairs: [[a, b]], q, turned }) => [text(name), row(o("("), look(0, sub(i("x"), n(a)), o(","), sub(i("x"), n(b))), o(")"), o("="), n(vector([q[a], q[b]])), o("→"), n(vector([turned[a], turned[b]])))];
    return lines(
      [text(t`pair 0`), row(text(t`turned by `), i("m"), sub(i("θ"), n(0)), o("="), n(m), o("·"), n(data.theta[0]), o("="), n(m * data.theta[0]))],
      line(t`interleaved`, data.interleaved),
      line(permuted ? t`half, permuted` : t`half`, right),
    );
  },

  html(data, { m, n }) {
    const { interleaved, half, mixed, permuted } = data.scores;
    const dim = data.interleaved.q.length;
    const isRight = (score) => Math.abs(score - interleaved) < 1e-9;
    const line = (what, name, score) => `<tr><td>${what}</td><td><output data-value="${name}">${fixed(score, 4)}</output></td><td>${isRight(score) ? t`✓ as trained` : t`✗ another score`}</td></tr>`;
    return t`<p class="soft">Weights trained interleaved, a query at ${m}, the key ${vector(KEY.slice(0, dim))} at ${n}:</p>
      <table><thead><tr><th>run as</th><th>score</th><th></th></tr></thead><tbody>
      ${line(t`interleaved`, "interleaved", interleaved)}${line(t`half, with the same weights`, "half", half)}
      ${line(t`query interleaved, key half`, "mixed", mixed)}${line(t`half, with permuted weights`, "permuted", permuted)}</tbody></table>`;
  },

  draw(data, { permuted, m }, width) {
    const dim = data.interleaved.q.length;
    const at = layout(width, dim);
    const most = reach(data);
    const panels = [
      { name: t`interleaved: 2j, 2j+1`, layout: data.interleaved, from: (feature) => feature },
      permuted
        ? { name: width < 480 ? t`half, permuted` : t`half, weights permuted`, layout: data.permuted, from: (feature) => origin(feature, dim) }
        : { name: t`half: j, j+d/2`, layout: data.half, from: (feature) => feature },
    ];
    const content = panels.map(({ name, layout: { pairs, q, turned }, from }, index) => {
      const { x, y } = at.panel(index);
      const middle = (feature) => (feature + 0.5) * at.cell;
      const pairOf = Array(dim);
      pairs.forEach((features, pair) => features.forEach((feature) => (pairOf[feature] = pair)));
      const arcs = pairs.map(([a, b], pair) => {
        const [from, to, up] = [middle(a), middle(b), 14 + 30 * Math.min(1, (b - a - 1) / 4 + (b - a > 1 ? 0.35 : 0))];
        return group({ class: `s${pair % 8}` }, tag("path", { d: `M${from} 74C${from} ${74 - up * 1.3} ${to} ${74 - up * 1.3} ${to} 74`, class: "line" }));
      });
      const bars = (values, zero, isHandle) =>
        values.map((value, feature) => {
          const end = zero - (value / most) * BAR;
          const wide = Math.min(26, at.cell * 0.6);
          const bar = rect(middle(feature) - wide / 2, Math.min(zero, end), wide, Math.abs(end - zero), { class: "token", "fill-opacity": isHandle ? 0.85 : 1 });
          const beyond = isHandle ? 11 : 5;
          const numbers = at.hasNumbers ? label(middle(feature), value < 0 ? end + beyond + 10 : end - beyond, number(value, 3), { anchor: "middle" }) : "";
          const knob = isHandle ? rect(middle(feature) - at.cell / 2, zero - BAR, at.cell, 2 * BAR, { fill: "transparent" }) + circle(middle(feature), end, Math.min(6, at.cell / 3), { class: "knob" }) : "";
          return group({ class: `s${pairOf[feature] % 8}${isHandle ? " handle" : ""}`, "data-drag": isHandle && `x${from(feature)}` }, bar, knob) + numbers;
        });
      const axis = (zero) => line(0, zero, at.wide, zero);
      const features = q.map((_, feature) => label(middle(feature), 90, feature, { anchor: "middle", class: "strong" }));
      return group(
        { transform: `translate(${x} ${y})` },
        label(0, 14, name, { class: "heading" }),
        arcs,
        axis(at.zero),
        bars(q, at.zero, true),
        features,
        label(0, at.heading, t`turned, at m = ${m}`, { class: "name" }),
        axis(at.zeroTurned),
        bars(turned, at.zeroTurned, false),
      );
    });
    return { height: at.height, content: content.join("") };
  },

  // A bar moves by as much as the pointer does, in the scale that it had at first.
  drag: Object.fromEntries(
    KEY.map((_, feature) => [
      `x${feature}`,
      (point, { data, start, state }) => {
        const before = parse(start.state.q);
        start.most ??= reach(data);
        const value = before[feature] + ((start.point.y - point.y) / BAR) * start.most;
        const q = parse(state.q);
        q[feature] = Math.round(Math.max(-LIMIT, Math.min(LIMIT, value)) * 10) / 10;
        return { q: q.join(",") };
      },
    ]),
  ),

  hover(point, { state, data, width }) {
    const dim = data.interleaved.q.length;
    const at = layout(width, dim);
    for (const [index, name] of ["interleaved", state.permuted ? "permuted" : "half"].entries()) {
      const { x, y } = at.panel(index);
      const feature = Math.floor((point.x - x) / at.cell);
      if (point.x < x || feature >= dim || point.y < y || point.y > y + at.zeroTurned + BAR + 20) continue;
      const { pairs, q, turned } = data[name];
      const pair = pairs.findIndex((features) => features.includes(feature));
      const other = pairs[pair].find((partner) => partner !== feature);
      return t`Feature ${feature} forms pair ${pair} with feature ${other}: ${number(q[feature])}, turned ${number(turned[feature])}.`;
    }
  },

  table: (data) => ({
    columns: ["feature", "q", "interleaved_turned", "half_turned", "permuted_q", "permuted_turned"],
    rows: data.interleaved.q.map((q, f) => [f, q, data.interleaved.turned[f], data.half.turned[f], data.permuted.q[f], data.permuted.turned[f]]),
  }),

  describe: (data, { permuted }) =>
    t`A query ${vector(data.interleaved.q)} under two pairings. Interleaved it becomes ${vector(data.interleaved.turned)}, half${permuted ? t` with permuted weights` : ""} ${vector((permuted ? data.permuted : data.half).turned)}.`,
};
