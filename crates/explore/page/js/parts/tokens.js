// Two tokens that can be dragged along a sentence: moving both leaves the score as it is.
import { range, shared, toggle } from "../controls.js";
import { fixed, number } from "../format.js";
import { angle, i, lines, look, n, o, row, sub, subsup, sum, sup, text as words } from "../math.js";
import { arrow, circle, group, label, line, rect } from "../svg.js";
import { t } from "../words.js";

const LAST = 40;

/** Where things stand at a width: the ruler, and the circles below it. */
function layout(width, pairs) {
  const inset = 24;
  const place = (position) => inset + (position / LAST) * (width - 2 * inset);
  const across = Math.max(2, Math.min(pairs, Math.floor(width / 130)));
  const size = width / across;
  const radius = size / 2 - 16;
  const rows = Math.ceil(pairs / across);
  return { place, invert: (x) => Math.round(((x - inset) / (width - 2 * inset)) * LAST), across, size, radius, rows };
}

const clamp = (position) => Math.max(0, Math.min(LAST, position));

export default {
  id: "tokens",
  title: t`Only the distance counts`,
  text: t`<p>A rotary embedding turns the query at position m by m·θ and the key at position n by n·θ, pair of features by pair of
    features, each pair with its own θ. The score is the product of the two turned vectors.</p>
    <p>Drag the query or the key: the score changes. Drag the bar between them: both turn, by the same angle, and the angle
    between them stays: of the turns e<sup>imθ</sup> and e<sup>−inθ</sup>, e<sup>i(m−n)θ</sup> is left. <strong>So the score depends on m − n alone.</strong></p>
    <p>Score: <output class="big" data-value="score"></output> at distance <output data-value="distance"></output>;
    without positions <output data-value="unturned"></output>.</p>`,
  controls: {
    m: range(t`query at m`, 12, 0, LAST),
    n: range(t`key at n`, 7, 0, LAST),
    tied: toggle(t`move both together`, false),
    dim: { ...range(t`features, d`, 8, 2, 16, { step: 2 }) },
    base: { ...shared.base },
    seed: range(t`another query and key`, 1, 1, 99),
  },
  route: "tokens",
  ask: ({ m, n, dim, base, seed }) => ({ m, n, dim, base, seed }),

  values: (data) => ({
    score: fixed(data.score, 6),
    distance: number(data.distance),
    unturned: fixed(data.unturned, 3),
  }),

  formula: (data, { m, n: key }) =>
    lines(
      [
        row(angle(sub(i("R"), i("m")), i("q"), o(","), sub(i("R"), i("n")), i("k"))),
        row(o("="), sum(i("j")), words("Re"), o("["), sub(i("q"), i("j")), subsup(i("k"), i("j"), o("*")), sup(i("e"), row(i("i"), o("("), i("m"), o("−"), i("n"), o(")"), sub(i("θ"), i("j")))), o("]")),
      ],
      ["", row(o("="), look(0, n(data.score, 6)), words(t` at `), i("m"), o("−"), i("n"), o("="), n(m), o("−"), n(key), o("="), n(data.distance))],
    ),

  draw(data, { m, n }, width) {
    const at = layout(width, data.pairs.length);
    const ruler = 70;
    const [q, k] = [at.place(m), at.place(n)];
    const ticks = [];
    for (let position = 0; position <= LAST; position++) {
      const isLabelled = position % (width < 480 ? 10 : 5) === 0;
      ticks.push(line(at.place(position), ruler, at.place(position), ruler + (isLabelled ? 9 : 5)));
      if (isLabelled) ticks.push(label(at.place(position), ruler + 23, position, { anchor: "middle" }));
    }
    const token = (name, x, series) =>
      group({ class: `s${series} handle`, "data-drag": name }, rect(x - 17, ruler - 40, 34, 30, { rx: 6, class: "token" }), label(x, ruler - 20, name, { anchor: "middle", class: "on" }), line(x, ruler - 10, x, ruler, { class: "line" }));
    const between = group({ class: "handle", "data-drag": "both" }, line(q, ruler - 52, k, ruler - 52, { class: "grip" }), label(Math.max(34, Math.min(width - 34, (q + k) / 2)), ruler - 58, `m − n = ${data.distance}`.replace("-", "−"), { anchor: "middle", class: "name" }));
    const clocks = data.pairs.map((pair, index) => {
      const x = (index % at.across) * at.size + at.size / 2;
      const y = ruler + 56 + Math.floor(index / at.across) * (at.size + 22) + at.radius;
      const longest = Math.max(Math.hypot(...pair.q), Math.hypot(...pair.k), 1e-9);
      const hand = ([a, b], series) => arrow(x, y, x + (a / longest) * at.radius, y - (b / longest) * at.radius, { class: `arrow s${series}` });
      return group({}, circle(x, y, at.radius, { class: "dial" }), hand(pair.q_turned, 0), hand(pair.k_turned, 1), label(x, y + at.radius + 16, t`pair ${index}: ${fixed(pair.score, 2)}`, { anchor: "middle" }));
    });
    return {
      height: ruler + 60 + at.rows * (at.size + 22) - 16,
      content: group({}, line(at.place(0), ruler, at.place(LAST), ruler), ticks, between, token("k", k, 1), token("q", q, 0), clocks),
    };
  },

  drag: {
    q: (point, { width, state, data }) => move(layout(width, data.pairs.length).invert(point.x) - state.m, state, "m"),
    k: (point, { width, state, data }) => move(layout(width, data.pairs.length).invert(point.x) - state.n, state, "n"),
    both(point, { width, start, state, data }) {
      const { invert } = layout(width, data.pairs.length);
      const by = invert(point.x) - invert(start.point.x);
      return together(start.state.m + by - state.m, state);
    },
  },

  setup(section, { now, set }) {
    // With both tied, a slider takes the other token along.
    let last = now();
    section.querySelector(".controls").addEventListener("input", () => {
      const state = now();
      if (state.tied) {
        if (state.m !== last.m) set({ n: clamp(last.n + state.m - last.m) });
        else if (state.n !== last.n) set({ m: clamp(last.m + state.n - last.n) });
      }
      last = now();
    });
  },

  table: (data) => ({
    columns: ["pair", "theta", "q0", "q1", "q0_turned", "q1_turned", "k0", "k1", "k0_turned", "k1_turned", "score"],
    rows: data.pairs.map((pair, index) => [index, pair.theta, ...pair.q, ...pair.q_turned, ...pair.k, ...pair.k_turned, pair.score]),
  }),

  describe: (data, { m, n }) => t`A query at ${m} and a key at ${n} on a ruler, and each pair of their features as two hands of a clock. Score ${fixed(data.score, 4)}.`,
};

/** One token moves; the other goes along if they are tied. */
function move(by, state, name) {
  if (state.tied) return together(by, state);
  return { [name]: clamp(state[name] + by) };
}

/** Both move, as far as both can. */
function together(by, { m, n }) {
  const allowed = Math.max(-Math.min(m, n), Math.min(LAST - Math.max(m, n), by));
  return { m: m + allowed, n: n + allowed };
}
