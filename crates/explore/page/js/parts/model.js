// A real model's attention to a text: which tokens each head looks at.
import { cellAt, frame, heat, series } from "../chart.js";
import { choice, range, words } from "../controls.js";
import { escape, fixed, number } from "../format.js";
import { frac, i, lines, n, o, root, row, sub, sum, sup, text as say } from "../math.js";
import { group, label, rect } from "../svg.js";
import { t } from "../words.js";

const MEASURES = { reach: t`how far it looks, in tokens`, previous: t`weight on the token before`, first: t`weight on the first token` };

/** Where the three drawings stand: the map of one head, its weight by distance, the grid of all heads. */
function layout(width, data) {
  const isNarrow = width < 620;
  const names = isNarrow ? 64 : 92;
  const size = isNarrow ? width - names - 28 : Math.min(width * 0.6 - names, 430);
  const map = { x: names, y: 84, width: size, height: size };
  const left = isNarrow ? 0 : names + size + 28;
  const cell = Math.min(26, (width - left - 34) / data.reach[0].length);
  const top = isNarrow ? map.y + size + 46 : 40;
  const grid = { x: left + 30, y: top, width: cell * data.reach[0].length, height: Math.min(cell, 26) * data.reach.length };
  const below = grid.y + grid.height + 70;
  const distance = { left, top: below, width: width - left, height: 170 };
  return { map, grid, distance, height: Math.max(map.y + size + 12, below + distance.height) };
}

export default ({ model }) =>
  model && {
    id: "model",
    title: t`What a real model looks at`,
    text: t`<p>This is <strong>${escape(model.name)}</strong>: ${model.layers} layers of ${model.heads} heads. Every row of the map is a token that
      asks, every column a token that is looked at; a row's weights sum to 1. Positions enter through the rotation, and in a causal model through the mask:
      a head that always looks one token back has learned that from distances.</p>
      <p>The small grid has one cell per head: choose a head by clicking it. This one looks <output data-value="reach"></output> tokens
      far on average, gives <output data-value="previous"></output> of its weight to the token before, and
      <output data-value="first"></output> to the first token.</p>`,
    controls: {
      text: words(t`text`, t`The cat sat on the mat because it was tired.`, { longest: 600 }),
      layer: range(t`layer`, 0, 0, model.layers - 1),
      head: range(t`head`, 0, 0, model.heads - 1),
      measure: choice(t`the grid shows`, "reach", Object.entries(MEASURES)),
    },
    route: "model",
    ask: ({ text, layer, head }) => ({ text, layer, head }),

    values: (data, { layer, head }) => ({
      reach: number(data.reach[layer][head], 3),
      previous: fixed(data.previous[layer][head], 3),
      first: fixed(data.first[layer][head], 3),
    }),

    formula: () =>
      lines([
        sub(i("α"), i("mn")),
        row(o("="), frac(row(i("exp"), o("("), say(t`score `), sub(i("s"), i("mn")), o("/"), root(i("d")), o(")")), row(sum(i("n′")), i("exp"), o("("), sub(i("s"), row(i("m"), i("n′"))), o("/"), root(i("d")), o(")")))),
      ], [sub(i("s"), i("mn")), row(o("="), sup(sub(i("q"), i("m")), i("T")), sub(i("R"), row(i("n"), o("−"), i("m"))), sub(i("k"), i("n")))]),

    draw(data, { layer, head, measure }, width) {
      const at = layout(width, data);
      const count = data.tokens.length;
      const cell = at.map.width / count;
      const every = Math.ceil(12 / cell); // as many names as there is room for
      const name = (token) => (token.length > 11 ? `${token.slice(0, 10)}…` : token);
      const rows = data.tokens.map((token, index) => (index % every ? "" : label(at.map.x - 6, at.map.y + (index + 0.5) * cell + 4, name(token), { anchor: "end" })));
      const columns = data.tokens.map((token, index) => {
        const [x, y] = [at.map.x + (index + 0.5) * cell + 4, at.map.y - 6];
        return index % every ? "" : label(x, y, name(token), { transform: `rotate(-55 ${x} ${y})` });
      });
      const values = data[measure];
      const most = Math.max(...values.flat(), 1e-9);
      const [across, down] = [at.grid.width / values[0].length, at.grid.height / values.length];
      const chart = frame({ width: at.distance.width, height: at.distance.height, x: { domain: [0, Math.max(1, count - 1)], label: t`tokens back, m − n` }, y: { domain: [0, Math.max(...data.by_distance, 1e-6)], label: t`mean weight` } });
      return {
        height: at.height,
        content:
          heat(data.weights, { ...at.map, low: 0, high: Math.max(...data.weights.flat()) }) +
          rows.join("") + columns.join("") +
          label(at.grid.x - 30, at.grid.y - 22, t`all heads: ${MEASURES[measure]}`, { class: "name" }) +
          label(at.grid.x, at.grid.y - 6, t`head →`) +
          group({ class: "handle", "data-drag": "grid" }, heat(values, { ...at.grid, low: 0, high: most })) +
          values.map((_, index) => (down < 12 && index % 2 ? "" : label(at.grid.x - 6, at.grid.y + (index + 0.5) * down + 4, index, { anchor: "end" }))).join("") +
          rect(at.grid.x + head * across, at.grid.y + layer * down, across, down, { class: "chosen" }) +
          group({ transform: `translate(${at.distance.left} ${at.distance.top})` }, chart.axes, series(chart, data.by_distance.map((weight, distance) => [distance, weight]), 0)),
      };
    },

    drag: {
      grid(point, { data, width }) {
        const cell = cellAt(point, layout(width, data).grid, data.reach.length, data.reach[0].length);
        return cell && { layer: cell[0], head: cell[1] };
      },
    },

    hover(point, { data, width, state }) {
      const at = layout(width, data);
      const cell = cellAt(point, at.map, data.tokens.length, data.tokens.length);
      if (cell) return t`${data.tokens[cell[0]]} (${cell[0]}) looks at ${data.tokens[cell[1]]} (${cell[1]}): ${fixed(data.weights[cell[0]][cell[1]], 4)}`;
      const head = cellAt(point, at.grid, data.reach.length, data.reach[0].length);
      return head && t`layer ${head[0]}, head ${head[1]}: ${number(data[state.measure][head[0]][head[1]], 3)}`;
    },

    table: (data) => ({ columns: ["", ...data.tokens], rows: data.tokens.map((token, index) => [token, ...data.weights[index]]) }),
    describe: (data, { layer, head }) => t`The attention of layer ${layer}, head ${head} among ${data.tokens.length} tokens, as a map.`,
  };
