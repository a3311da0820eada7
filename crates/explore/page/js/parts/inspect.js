// A configuration of the reader's own: dropped, pasted, chosen, or one of the examples. The verdict of `roformer inspect`, drawn.
import { choice, range, shared } from "../controls.js";
import { count, escape, number } from "../format.js";
import { frac, i, lines, look, n, o, row, sub, text } from "../math.js";
import { ask } from "../ask.js";
import { goTo } from "../place.js";
import { state as page } from "../state.js";
import { about, drawAll, pairOfFeature, wordsAt } from "./inspect/chart.js";
import { bring, current, fileOf, hold, KEYS, showExample, textOf } from "./inspect/source.js";
import { verdict } from "./inspect/verdict.js";
import { t } from "../words.js";

// Whether nobody has asked for a certain place of the page.
const isFresh = !location.hash;
let isObjectOpen = false;

const inspect = (text, { context, pairing }) => ask("inspect", { context, pairing }, { method: "POST", body: text });
const turningOf = (data) => data.report.layers[data.layer].turning;
const chosen = (data, state) => Math.min(state.pair, turningOf(data).pairs.length - 1);

export default {
  id: "inspect",
  title: t`Your own model`,
  text: t`<p>All that was shown so far follows from a few numbers in a model’s <code>config.json</code>. <strong>Drop one anywhere on this
    page</strong>, paste it, or choose it. It goes to the program that serves this page and no further.</p>
    <div class="take">
      <label class="button">Choose a file<input type="file" id="inspect-file" accept=".json,application/json"></label>
      <textarea id="inspect-paste" rows="2" spellcheck="false" aria-label="Paste a config.json here" placeholder="or paste it here"></textarea>
    </div>
    <div class="control choice"><span class="label" id="inspect-examples">or look at one of these</span><div class="choices examples" role="group" aria-labelledby="inspect-examples"></div></div>
    <p>Shown: <strong data-value="name"></strong>. <span data-value="about"></span></p>
    <p class="soft">Dots and bars: blue pairs have seen every angle in training, grey ones a part of the circle and reach no further, orange
    ones reach angles that they have never seen. The last curve is the score of two like tokens: once it is negative, like
    tokens can score below unlike ones.</p>`,
  controls: {
    context: { ...shared.context },
    pair: range(t`pair j`, 0, 0, 255),
    pairing: choice(t`pairing`, "", [["", t`as the file says`], ["interleaved", t`interleaved`], ["half", t`half`], ["interleaved_to_half", t`interleaved to half`]]),
  },

  async load(state) {
    const { text, ...source } = await current();
    const answer = await inspect(text, state);
    const layer = answer.report.layers.findIndex(({ layer_type }) => layer_type === page.get("inspect.layer"));
    return { ...answer, source, layer: Math.max(0, layer) };
  },

  values: (data, state) => ({ name: data.source.name, about: turningOf(data) ? t`${about(turningOf(data), chosen(data, state))}.` : "" }),

  formula(data, state) {
    const turning = turningOf(data);
    if (!turning) return "";
    const pair = chosen(data, state);
    const { theta, wavelength, turns } = turning.pairs[pair];
    const of = (name) => sub(i(name), n(pair));
    const rows = [
      [of("θ"), row(o("="), look(0, n(theta, 6)), text(t` radians per token`))],
      [of("λ"), row(o("="), frac(row(n(2), i("π")), of("θ")), o("="), look(0, n(wavelength ?? Infinity, 5)), text(t` tokens per turn`))],
    ];
    if (turns !== null) rows.push([text(t`turns`), row(o("="), frac(n(turning.length), of("λ")), o("="), look(0, n(turns, 4)))]);
    return lines(...rows);
  },

  draw: drawAll,
  html: (data) => verdict(data, isObjectOpen),
  drag: {
    feature(point, { data, width }) {
      const pair = pairOfFeature(point, data, width);
      return pair === null ? null : { pair };
    },
  },
  hover: (point, { data, width }) => wordsAt(point, data, width),

  table: (data) => ({
    columns: ["pair", "feature0", "feature1", "theta", "wavelength", "turns", "seen_in_training", "is_beyond"],
    rows: (turningOf(data)?.pairs ?? []).map((pair, index) => [index, ...(pair.features ?? ["", ""]), pair.theta, pair.wavelength, pair.turns, pair.seen, pair.is_beyond]),
  }),

  describe(data) {
    const turning = turningOf(data);
    if (!turning) return t`Layers without rotary embedding.`;
    return t`The wavelengths of ${turning.pairs.length} pairs with base ${number(turning.base, 9)}, and what training has seen of each.`;
  },

  setup(section, { now, refresh }) {
    const find = (selector) => section.querySelector(selector);
    page.listen((keys) => KEYS.some((key) => keys.has(key)) && section.isSettled !== undefined && refresh());

    // Why something was not taken is said until something else is done, also when the part comes into view only now.
    let complaint = null; // { message, state }
    const complain = (message) => {
      complaint = { message, state: JSON.stringify(now()) };
      section.refuse(message);
    };
    /** Reads a configuration once; what cannot be read changes nothing but says why. */
    const take = async (name, reading) => {
      complaint = null;
      try {
        const text = await reading;
        if (!text.trim()) throw new Error(t`there is nothing in it; expected a Hugging Face config.json`);
        await inspect(text, now());
        await hold(name, text);
        await refresh();
      } catch (error) {
        complain(error.message.startsWith(name) ? error.message : t`${name}: ${error.message}`);
      }
    };
    drops(take, complain, section);
    find("#inspect-file").addEventListener("change", ({ target }) => {
      const [file] = target.files;
      if (file) take(file.name, textOf(file));
      target.value = ""; // so that the same file can be chosen again
    });
    find("#inspect-paste").addEventListener("input", ({ target }) => {
      const words = target.value;
      target.value = "";
      if (words.trim()) take(t`what was pasted`, Promise.resolve(words));
    });

    // Examples; and what the program was started with, which is looked at first.
    bring()
      .then(({ examples, given }) => {
        const row = find(".examples");
        row.innerHTML = examples.map(({ key, name }) => `<button type="button" data-example="${key}">${escape(name)}</button>`).join("");
        row.addEventListener("click", ({ target }) => {
          complaint = null;
          if (target.dataset.example) showExample(target.dataset.example);
        });
        if (!given || KEYS.some((key) => page.get(key))) return;
        if (isFresh) goTo(section);
        return hold(given.name.split(/[\\/]/).filter(Boolean).pop(), given.text);
      })
      .catch((error) => section.refuse(error.message));

    // Layer types above the figure, where there are several.
    const layers = document.createElement("div");
    layers.className = "choices layers";
    layers.setAttribute("role", "group");
    layers.setAttribute("aria-label", t`layer type`);
    find(".drawing").before(layers);
    layers.addEventListener("click", ({ target }) => target.dataset.layer !== undefined && page.set({ "inspect.layer": target.dataset.layer }));
    const figure = section.figure;
    const show = figure.show.bind(figure);
    let names = []; // of the layer types that have buttons
    figure.show = (data, state) => {
      const found = data.report.layers.length > 1 ? data.report.layers.map(({ layer_type }) => layer_type) : [];
      if (found.join("\n") !== names.join("\n")) layers.innerHTML = found.map((name) => `<button type="button" data-layer="${escape(name)}">${escape(name)}</button>`).join("");
      names = found;
      [...layers.children].forEach((button, index) => button.setAttribute("aria-pressed", index === data.layer));
      for (const button of section.querySelectorAll("[data-example]")) button.setAttribute("aria-pressed", button.dataset.example === data.source.key);
      for (const box of section.querySelectorAll("#inspect-pair, #inspect-pair-exact")) box.max = Math.max(1, turningOf(data)?.pairs.length ?? 0) - 1;
      show(data, state);
      if (complaint?.state === JSON.stringify(state)) section.refuse(complaint.message);
    };

    const everywhere = document.createElement("button");
    everywhere.type = "button";
    everywhere.className = "button";
    everywhere.id = "inspect-everywhere";
    everywhere.textContent = t`Show it on the whole page`;
    everywhere.title = t`Sets base, features, trained and target length everywhere to those of this configuration`;
    everywhere.addEventListener("click", () => figure.data && showEverywhere(figure.data, section));
    find(".controls").append(everywhere);

    find(".below").addEventListener("toggle", ({ target }) => (isObjectOpen = target.open), true);
    find(".below").addEventListener("click", async ({ target }) => {
      if (target.dataset.copy === undefined) return;
      try {
        await navigator.clipboard.writeText(target.parentElement.querySelector("pre").textContent);
        target.textContent = t`Copied`;
      } catch {
        getSelection().selectAllChildren(target.parentElement.querySelector("pre"));
        target.textContent = t`Selected`;
      }
      setTimeout(() => (target.textContent = t`Copy`), 1500);
    });
  },
};

/** Takes what is dropped or pasted anywhere on the page. */
function drops(take, complain, section) {
  const isField = (target) => target instanceof Element && target.closest("input, textarea");
  const isOurs = (event) => event.dataTransfer && (event.dataTransfer.types.includes("Files") || !isField(event.target));
  const mark = (isOn) => document.body.classList.toggle("dropping", isOn);
  addEventListener("dragover", (event) => {
    if (!isOurs(event)) return;
    event.preventDefault();
    mark(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && mark(false));
  addEventListener("drop", (event) => {
    mark(false);
    if (!isOurs(event)) return;
    event.preventDefault();
    goTo(section);
    try {
      const file = fileOf(event.dataTransfer);
      const words = event.dataTransfer.getData("text/plain");
      if (file) take(file.name, textOf(file));
      else take(t`what was dropped`, Promise.resolve(words));
    } catch (error) {
      complain(error.message);
    }
  });
  addEventListener("paste", (event) => {
    const words = event.clipboardData?.getData("text/plain") ?? "";
    if (isField(event.target) || !words.trim().startsWith("{")) return;
    goTo(section);
    take(t`what was pasted`, Promise.resolve(words));
  });
}

/** Sets the controls that all parts share; what a part cannot show is said. */
function showEverywhere(data, section) {
  const turning = turningOf(data);
  if (!turning) return section.refuse(t`These layers have no rotary embedding to show elsewhere.`);
  const values = { base: turning.base, dim: turning.rotary_dim, length: turning.training?.length, context: turning.length };
  for (const [name, value] of Object.entries(values)) {
    const { label, min, max } = shared[name];
    if (value !== undefined && value !== null && !(value >= min && value <= max)) {
      return section.refuse(t`The other parts show a ${label} from ${count(min)} to ${count(max)}; here it is ${number(value)}.`);
    }
  }
  page.set(Object.fromEntries(Object.entries(values).filter(([, value]) => value ?? false).map(([name, value]) => [name, String(value)])));
}
