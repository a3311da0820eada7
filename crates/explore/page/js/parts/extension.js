// Context extension: what each method makes of the wavelengths, for a model trained at one length and used at another.
import { choice, range, shared, toggle } from "../controls.js";
import { count, number } from "../format.js";
import { state as page } from "../state.js";
import { ABOUT, formula, HIGHEST, METHODS, POWERS } from "./extension/methods.js";
import { drawChart, geometry, pairAt, powerAt } from "./extension/chart.js";
import { t } from "../words.js";

const chosen = (data, state) => data.methods.find(({ key }) => key === state.method) ?? data.methods[0];
const powers = (state) => POWERS.map(([name]) => state[name]);
// An address written by hand may hold powers that fall.
const rising = (list) => list.map((_, index) => Math.max(...list.slice(0, index + 1)));

/** One power moves; those before it are no higher, those after it no lower. */
function push(state, index, value) {
  const moved = (power, other) => (other < index ? Math.min(power, value) : other > index ? Math.max(power, value) : value);
  return Object.fromEntries(POWERS.map(([name], other) => [name, moved(state[name], other)]));
}

export default {
  id: "extension",
  title: t`Reaching further than training`,
  text: t`<p>Each pair of features is a hand of a clock. A full turn takes it 2π/θ tokens, its <em>wavelength</em>: about 6 tokens for
    the fastest pair, <output data-value="slowest"></output> for the slowest. Training on <output data-value="length"></output> tokens
    showed the model every angle of the fast pairs. But <output data-value="never"></output> of <output data-value="pairs"></output>
    pairs never came round once: of their circle the model knows only a part.</p>
    <p><strong>Past the trained length these slow pairs turn on, to angles that the model has never met.</strong> Nothing in its
    weights says what they mean, and answers fall apart there. The fast pairs are no trouble: they only see known angles again.</p>
    <p>So every method slows pairs down, to fit <output data-value="context"></output> tokens into the angles that were seen, and not every method
    gets there: the table counts the pairs that still reach beyond. They
    differ in which pairs they slow, and fast pairs have a price: they tell neighbouring tokens apart, and slowed down they do so
    less well.</p>
    <p data-value="about"></p>
    <p>At the target <output class="big" data-value="unseen"></output> of <output data-value="pairs"></output> pairs reach angles never
    seen, and <output data-value="kept"></output> turn exactly as before. At the fastest pair, neighbouring tokens come closer by a
    factor of <output data-value="crowding"></output>. Turned vectors are scaled by <output data-value="attention"></output>.</p>
    <p class="soft">The base sets how slow the slow pairs are. A larger one keeps more of them within their first turn and leaves room
    for long texts, if the model is trained with it. Changed afterwards it moves every angle but those of pair 0, which is what
    NTK-aware does on purpose.</p>`,
  controls: {
    method: choice(t`method`, "yarn", METHODS.map(([key, name]) => [key, name])),
    ratio: toggle(t`show the difference to plain RoPE, θ/θ′`, false),
    length: { ...shared.length },
    context: { ...shared.context },
    base: { ...shared.base },
    dim: { ...shared.dim },
    ...Object.fromEntries(POWERS.map(([name, where, value]) => [name, range(t`slower by s to the power, at ${where}`, value, 0, HIGHEST, { step: 0.01 })])),
  },
  route: "extension",
  ask: (state) => ({ dim: state.dim, base: state.base, length: state.length, context: state.context, powers: rising(powers(state)).join(",") }),

  values(data, state) {
    const method = chosen(data, state);
    const plain = data.methods[0];
    return {
      slowest: count(plain.wavelength.at(-1)),
      length: count(state.length),
      context: count(state.context),
      never: count(data.never_turned),
      pairs: count(plain.wavelength.length),
      about: ABOUT[method.key],
      unseen: count(method.unseen),
      kept: count(method.kept),
      crowding: number(method.crowding, 4),
      attention: number(method.attention_factor, 5),
    };
  },

  formula: (data, state) => formula(chosen(data, state), data, state),

  draw: (data, state, width) => drawChart(data, { ...state, powers: rising(powers(state)) }, width),

  html(data, state) {
    const row = (method) => {
      const isChosen = method.key === state.method;
      const cells = [count(method.unseen), count(method.kept), number(method.crowding, 4), number(method.attention_factor, 5)];
      const name = METHODS.find(([key]) => key === method.key)[1];
      return `<tr><th scope="row">${isChosen ? `<strong>${name}</strong>` : name}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
    };
    return t`<table><thead><tr><th scope="col">method</th><th scope="col">unseen pairs</th><th scope="col">unchanged pairs</th>
      <th scope="col">neighbours closer by</th><th scope="col">attention factor</th></tr></thead><tbody>${data.methods.map(row).join("")}</tbody></table>`;
  },

  drag: Object.fromEntries(
    POWERS.map(([name], index) => [
      name,
      (point, { state, data, width }) => {
        const power = powerAt(point.y, index, data, state, width);
        return power === null ? null : push(state, index, power);
      },
    ]),
  ),

  hover(point, { state, data, width }) {
    const pair = pairAt(point, geometry(data, state, width), data);
    if (pair === null) return null;
    const method = chosen(data, state);
    const [wavelength, slower] = [method.wavelength[pair], method.slowdown[pair]];
    const turns = (length, wavelength) => t`${number(length / wavelength, 3)} turns`;
    const changed = Math.abs(slower - 1) < 1e-9 ? t`as in plain RoPE` : t`${number(slower, 3)} times slower than in plain RoPE`;
    return t`Pair ${pair}: a turn takes ${number(wavelength, 4)} tokens, ${changed}; ${turns(state.length, data.methods[0].wavelength[pair])} in training, ${turns(state.context, wavelength)} at the target.`;
  },

  setup(section, { now, set }) {
    morphs(section.figure, now().method);
    // A divisor takes its neighbours along; only LongRoPE has divisors to set.
    page.listen((keys) => {
      const index = POWERS.findIndex(([name]) => keys.has(`extension.${name}`));
      if (index >= 0) set(push(now(), index, now()[POWERS[index][0]]));
    });
    const { show } = section.figure;
    section.figure.show = (data, state) => {
      for (const [name] of POWERS) section.querySelector(`#extension-${name}`).closest(".control").style.display = state.method === "longrope" ? "" : "none";
      return show(data, state);
    };
  },

  table: (data) => ({
    columns: ["pair", ...data.methods.flatMap(({ key }) => [`${key}_wavelength`, `${key}_slower_by`, `${key}_seen`])],
    rows: data.methods[0].wavelength.map((_, pair) => [pair, ...data.methods.flatMap((method) => [method.wavelength[pair], method.slowdown[pair], method.seen[pair]])]),
  }),

  describe(data, state) {
    const method = chosen(data, state);
    return t`The wavelength of each of ${method.wavelength.length} pairs under seven methods, against the trained length ${state.length} and the target length ${state.context}. Under ${METHODS.find(([key]) => key === method.key)[1]}, ${method.unseen} pairs reach angles never seen in training.`;
  },
};

const MORPH = 350; // milliseconds

/** Lets the chosen line move from one method to the next, unless the reader wants no motion. */
function morphs(figure, method) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const draw = figure.show.bind(figure);
  let [run, done] = [0, () => {}];
  figure.show = (data, state) => {
    cancelAnimationFrame(run);
    done();
    const from = method;
    method = state.method;
    if (from === method || calm.matches) return draw(data, state);
    let started = null;
    const step = (time) => {
      started ??= time;
      const part = Math.min(1, (time - started) / MORPH);
      draw(data, part < 1 ? { ...state, morph: { from, part: part * part * (3 - 2 * part) } } : state);
      if (part < 1) run = requestAnimationFrame(step);
      else figure.isDrawn.then(done);
    };
    draw(data, { ...state, morph: { from, part: 0 } });
    run = requestAnimationFrame(step);
    figure.isDrawn = new Promise((resolve) => (done = resolve));
  };
}
