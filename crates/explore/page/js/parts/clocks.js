// A wall of clocks, one per pair: the angles that training has seen, and those that a longer text reaches.
import { legend, scale } from "../chart.js";
import { range, shared } from "../controls.js";
import { count, fixed, number } from "../format.js";
import { i, lines, look, n, o, row, sub, sup, text } from "../math.js";
import { circle, group, label, line, px, rect, tag } from "../svg.js";
import { t } from "../words.js";

const LEFT = 30;
/** Whole positions of three digits: what a slider can aim at. */
const whole = (value) => Math.round(Number(value.toPrecision(3)));
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const furthest = ({ length, context }) => Math.max(length, context);
const degrees = (angle) => `${Math.round((angle * 180) / Math.PI)}°`;
const tokens = (value) => (value < 1e3 ? number(value) : count(value));

/** Where the clocks hang at a width, as near to the window's shape as whole rows allow. */
function wall(width, pairs) {
  const keys = legend([["0 faded", t`seen in training`], ["1", t`never seen`], ["7", t`hand at m`]], 2, 13, width);
  const top = keys.height + 8;
  const across = clamp(Math.round((width - LEFT) / clamp(Math.sqrt(((width - LEFT) * Math.min(380, 0.9 * width)) / pairs), 20, 110)), 1, pairs);
  const cell = Math.min(110, (width - LEFT) / across);
  const rows = Math.ceil(pairs / across);
  const middle = (pair) => [LEFT + ((pair % across) + 0.5) * cell, top + (Math.floor(pair / across) + 0.5) * cell];
  const pairAt = ({ x, y }) => {
    const [column, line] = [Math.floor((x - LEFT) / cell), Math.floor((y - top) / cell)];
    const pair = line * across + column;
    return column >= 0 && column < across && line >= 0 && pair < pairs ? pair : null;
  };
  return { keys, top, across, cell, rows, middle, pairAt, radius: cell / 2 - Math.max(2, 0.09 * cell), bottom: top + rows * cell };
}

/** The ruler of positions, by logarithms. */
const ruler = (width, state) => scale({ domain: [1, furthest(state)], log: true }, LEFT, width - 14);

/** The path of an arc, against the clock. One path for all arcs of a kind is drawn faster than hundreds. */
function arc([x, y], radius, from, to) {
  if (to - from < 1e-4) return "";
  const at = (angle) => `${px(x + radius * Math.cos(angle))} ${px(y - radius * Math.sin(angle))}`;
  const half = (from + to) / 2;
  const size = `${px(radius)} ${px(radius)}`;
  return `M${at(from)}A${size} 0 0 0 ${at(half)}A${size} 0 0 0 ${at(to)}`;
}

const about = (clock, pair, { length }) =>
  t`Pair ${pair}: a turn takes ${tokens(clock.wavelength)} tokens, ${number(clock.turns, 3)} turns within ${count(length)}; the hand is at ${degrees(clock.angle)}${clock.is_beyond ? t`, where training never had it` : ""}.`;

export default {
  id: "clocks",
  title: t`A wall of clocks`,
  text: t`<p>A whole head is a wall of clocks, one for each pair of features, the fastest first. At position m the hand of pair j
    has turned by m·θ<sub>j</sub>, from the right and anticlockwise. Together the hands tell the position, as the hands for
    seconds, minutes and hours tell the time.</p>
    <p><strong>What the base does.</strong> It makes the slow clocks slow. A turn takes 6.28 tokens for the first pair, whatever
    the base; for the last one here it takes <output data-value="slowest"></output>. With a larger base every clock but the first goes
    slower, and more of them stay within their first turn.</p>
    <p><strong>What breaks past the trained length.</strong> Grey is the arc that a hand has swept within the
    <output data-value="length"></output> tokens of training. Fast clocks went round many times and have seen every angle, but
    <output class="big" data-value="never"></output> of <output data-value="pairs"></output> pairs never complete a turn. In a
    text of <output data-value="context"></output> tokens <output class="big" data-value="unseen"></output> pairs reach angles
    that training never showed, in orange. Nobody has taught the model what those mean.</p>
    <p>Drag across the wall to move the position. <span data-value="about"></span></p>`,
  controls: {
    position: range(t`position m`, 1000, 1, 4194304, { log: true, round: whole, most: (value) => Math.max(value("length"), value("context")) }),
    base: { ...shared.base },
    dim: { ...shared.dim },
    length: { ...shared.length },
    context: { ...shared.context },
    pair: range(t`look at pair j`, 46, 0, 255, { most: (value) => value("dim") / 2 - 1 }),
  },
  route: "clocks",
  ask: ({ dim, base, length, context, position }) => ({ dim, base, length: Math.round(length), context: Math.round(context), position: Math.round(position) }),

  values: (data, state) => ({
    never: number(data.never_turning),
    unseen: number(data.unseen),
    pairs: number(data.clocks.length),
    length: count(state.length),
    context: count(state.context),
    slowest: tokens(data.clocks.at(-1).wavelength),
    about: about(data.clocks[state.pair], state.pair, state),
  }),

  formula(data, { pair, length, context, base, dim }) {
    const clock = data.clocks[pair];
    const turns = (length * clock.theta) / (2 * Math.PI);
    const further = (context * clock.theta) / (2 * Math.PI);
    const isUnseen = turns < 1 && context > length;
    const verdict = isUnseen ? t`training has not seen all of it` : t`training has seen every angle`;
    const wavelength = row(n(2), i("π"), o("/"), sub(i("θ"), i("j")));
    return lines(
      [wavelength, row(o("="), n(2), i("π"), o("·"), sup(i("base"), row(n(2), i("j"), o("/"), i("d"))))],
      ["", row(o("="), n(2), i("π"), o("·"), sup(n(base, 6), row(n(2 * pair), o("/"), n(dim))), o("="), n(tokens(clock.wavelength)), text(t` tokens`))],
      [text(t`trained`), row(o("="), n(count(length)), o("/"), n(tokens(clock.wavelength)), o("="), n(turns, 3), text(t` turns`))],
      [text(t`target`), row(o("="), n(count(context)), o("/"), n(tokens(clock.wavelength)), o("="), isUnseen ? look(1, n(further, 3)) : n(further, 3), text(t` turns`))],
      ["", text(verdict)],
    );
  },

  draw(data, state, width) {
    const at = wall(width, data.clocks.length);
    const { radius, cell } = at;
    const thick = `stroke-width: ${px(clamp(0.085 * cell, 2.2, 6))}; stroke-linecap: butt`;
    const paths = { dial: "", seen: "", unseen: "", hand: "", beyond: "" };
    data.clocks.forEach((clock, pair) => {
      const [x, y] = at.middle(pair);
      paths.dial += `M${px(x + radius)} ${px(y)}a${px(radius)} ${px(radius)} 0 1 0 ${px(-2 * radius)} 0a${px(radius)} ${px(radius)} 0 1 0 ${px(2 * radius)} 0Z`;
      paths.seen += arc([x, y], radius, 0, clock.seen);
      paths.unseen += arc([x, y], radius, clock.seen, clock.reached);
      paths[clock.is_beyond ? "beyond" : "hand"] += `M${px(x)} ${px(y)}l${px(0.8 * radius * Math.cos(clock.angle))} ${px(-0.8 * radius * Math.sin(clock.angle))}`;
    });
    const path = (d, look, style, kind = "line") => group({ class: look }, tag("path", { d, class: kind, style }));
    const numbers = Array.from({ length: at.rows }, (_, row) => label(LEFT - 7, at.top + (row + 0.5) * cell + 4, row * at.across, { anchor: "end" }));

    const place = ruler(width, state);
    const y = at.bottom + 48;
    const [here, trained, target] = [place(Math.max(1, state.position)), place(state.length), place(state.context)];
    const bar = "stroke-width: 5; stroke-linecap: butt";
    const mark = (x, words, below) => line(x, y - 6, x, y + 6) + label(clamp(x, 0, width), y + below, words, { anchor: x > 0.5 * width ? "end" : "middle" });
    const position = group(
      {},
      group({ class: "faded" }, line(place(1), y, trained, y, { class: "line", style: bar })),
      target > trained ? group({ class: "s1" }, line(trained, y, target, y, { class: "line", style: bar })) : "",
      mark(place(1), "1", 22),
      mark(trained, t`trained length ${count(state.length)}`, 22),
      mark(target, t`target length ${count(state.context)}`, 40),
      rect(LEFT - 10, y - 16, width - LEFT, 32, { fill: "transparent", class: "handle", "data-drag": "position", style: "touch-action: pan-y" }),
      group({ class: "s7 handle", "data-drag": "position" }, circle(here, y, 8, { class: "knob" }), label(clamp(here, 60, width - 60), y - 15, `m = ${count(state.position)}`, { anchor: "middle", class: "strong" })),
    );
    const chosen = data.clocks[state.pair] ? circle(...at.middle(state.pair), cell / 2 - 0.5, { class: "axis", fill: "none" }) : "";
    return {
      height: y + 52,
      content:
        at.keys.content +
        path(paths.dial, "", "", "dial") +
        path(paths.seen, "faded", thick) +
        path(paths.unseen, "s1", thick) +
        path(paths.hand, "s7", "") +
        path(paths.beyond, "s1", "") +
        chosen +
        numbers.join("") +
        rect(LEFT, at.top, width - LEFT, at.bottom - at.top, { class: "handle", "data-drag": "wall", fill: "transparent", style: "touch-action: pan-y" }) +
        position,
    };
  },

  drag: {
    wall(point, { width, state, start }) {
      const place = ruler(width, state);
      const position = place.invert(place(Math.max(1, start.state.position)) + point.x - start.point.x);
      return { position: whole(clamp(position, 1, furthest(state))) };
    },
    position: (point, { width, state }) => ({ position: whole(clamp(ruler(width, state).invert(point.x), 1, furthest(state))) }),
  },

  hover(point, { state, data, width }) {
    const pair = wall(width, data.clocks.length).pairAt(point);
    return pair === null ? "" : about(data.clocks[pair], pair, state);
  },

  setup(section, { set }) {
    // A clock that is touched is the one that is looked at: fingers do not hover.
    const { figure } = section;
    figure.svg.addEventListener("pointerdown", (event) => {
      if (!figure.data) return;
      const box = figure.svg.getBoundingClientRect();
      const zoom = figure.drawn / box.width;
      const pair = wall(figure.drawn, figure.data.clocks.length).pairAt({ x: (event.clientX - box.left) * zoom, y: (event.clientY - box.top) * zoom });
      if (pair !== null) set({ pair });
    });
  },

  table: (data) => ({
    columns: ["pair", "theta", "wavelength", "turns_trained", "angle", "seen", "reached", "is_beyond"],
    rows: data.clocks.map((clock, pair) => [pair, clock.theta, clock.wavelength, clock.turns, clock.angle, clock.seen, clock.reached, clock.is_beyond]),
  }),

  describe: (data, { length, context, position }) =>
    t`${data.clocks.length} clocks, one per pair, at position ${position}. ${data.never_turning} never complete a turn within ${length} tokens; ${data.unseen} reach unseen angles within ${context}; ${data.beyond} stand at one now. The last hand is at ${fixed(data.clocks.at(-1).angle, 3)} radians.`,
};
