// Controls: what a part lets the reader change. A control is plain data; `build` makes its elements, bound to a key of the
// state. Every control can be reached and moved with the keyboard.
import { stops } from "./ask.js";
import { state } from "./state.js";
import { t } from "./words.js";

/**
 * A number on a slider, with a box for the exact value. `log` spreads the slider by logarithms; `most` gives the largest value
 * from the other controls: (name => value) => number; `param` is the name that the server has for it, if it has another.
 */
export const range = (label, value, min, max, options = {}) => ({ kind: "range", label, value, min, max, step: 1, ...options });
/** One of several: `options` is a list of [value, label]. */
export const choice = (label, value, options) => ({ kind: "choice", label, value, options });
/** On or off. */
export const toggle = (label, value) => ({ kind: "toggle", label, value });
/** A line of text. */
export const words = (label, value, options = {}) => ({ kind: "words", label, value, ...options });

/** Controls that several parts share: moving one moves it everywhere. */
export const shared = {
  base: { ...range(t`base`, 10000, 10, 1e8, { log: true, step: "any" }), shared: true },
  dim: { ...range(t`features of a head, d`, 128, 2, 512, { step: 2 }), shared: true },
  length: { ...range(t`trained length`, 4096, 64, 1048576, { log: true }), shared: true },
  context: { ...range(t`target length`, 32768, 64, 4194304, { log: true }), shared: true },
};

/** The key of a part's control. */
export const keyOf = (part, name) => (part.controls[name].shared ? name : `${part.id}.${name}`);

/** The value of a control, as the type that it has. */
export function read(part, name) {
  const control = part.controls[name];
  const text = state.get(keyOf(part, name));
  if (control.kind === "range") {
    const value = Number(text);
    const sound = text === "" || !Number.isFinite(value) ? control.value : value;
    return Math.min(stopAt(part, name, sound), most(part, control));
  }
  if (control.kind === "toggle") return text === "true";
  return text;
}

/** The stop nearest to a value, in a page that has answers for stops alone. */
function stopAt(part, name, value) {
  const { log, param } = part.controls[name];
  const places = stops?.[part.id]?.[param ?? name];
  const away = (stop) => (log ? Math.abs(Math.log(stop / value)) : Math.abs(stop - value));
  return places?.length ? places.reduce((near, stop) => (away(stop) < away(near) ? stop : near)) : value;
}

const most = (part, control) => control.most?.((name) => read(part, name)) ?? Infinity;

/** Buttons that set several controls at once, below the others: `options` is a list of [label, changes]. */
export function presets(section, label, options, set) {
  const element = document.createElement("div");
  element.className = "control presets";
  element.innerHTML = `<span class="label">${label}</span><div class="choices" role="group" aria-label="${label}">${options.map(([name], index) => `<button type="button" data-preset="${index}">${name}</button>`).join("")}</div>`;
  element.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) set(options[button.dataset.preset][1]);
  });
  section.querySelector(".controls").append(element);
}

/** The element of a control. */
export function build(part, name) {
  const control = part.controls[name];
  const key = keyOf(part, name);
  state.declare(key, String(control.value));
  const element = document.createElement("div");
  element.className = `control ${control.kind}`;
  const id = `${part.id}-${name}`;
  const make = { range: buildRange, choice: buildChoice, toggle: buildToggle, words: buildWords }[control.kind];
  const show = make(element, control, id, (value) => state.set({ [key]: String(value) }));
  const refresh = () => show(read(part, name), most(part, control));
  state.listen((keys) => (keys.has(key) || control.most) && refresh());
  refresh();
  return element;
}

function buildRange(element, control, id, set) {
  // A logarithmic slider has a thousand steps between its ends.
  const { log, min, max } = control;
  const place = (value) => (log ? (1000 * Math.log(value / min)) / Math.log(max / min) : value);
  const value = (place) => {
    if (!log) return place;
    const exact = min * (max / min) ** (place / 1000);
    return control.round ? control.round(exact) : Number(exact.toPrecision(3));
  };
  const ends = log ? 'min="0" max="1000" step="1"' : `min="${min}" max="${max}" step="${control.step}"`;
  element.innerHTML = `<label for="${id}">${control.label}</label>
    <input type="range" id="${id}" ${ends}>
    <input type="number" id="${id}-exact" aria-label="${t`${control.label.replace(/<[^>]*>/g, "")}, exactly`}" min="${min}" max="${max}" step="${log ? "any" : control.step}">`;
  const [slider, box] = element.querySelectorAll("input");
  slider.addEventListener("input", () => set(value(Number(slider.value))));
  box.addEventListener("change", () => box.value !== "" && set(Number(box.value)));
  return (value, most) => {
    slider.max = place(Math.min(max, most));
    box.max = Math.min(max, most);
    slider.value = place(value);
    slider.setAttribute("aria-valuetext", String(value));
    if (document.activeElement !== box || Number(box.value) !== value) box.value = value;
  };
}

function buildChoice(element, control, id, set) {
  const button = ([value, label]) => `<button type="button" data-choice="${value}">${label}</button>`;
  element.innerHTML = `<span class="label" id="${id}">${control.label}</span>
    <div class="choices" role="group" aria-labelledby="${id}">${control.options.map(button).join("")}</div>`;
  const buttons = [...element.querySelectorAll("button")];
  for (const button of buttons) button.addEventListener("click", () => set(button.dataset.choice));
  return (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.choice === value);
  };
}

function buildToggle(element, control, id, set) {
  element.innerHTML = `<label><input type="checkbox" id="${id}"> ${control.label}</label>`;
  const box = element.querySelector("input");
  box.addEventListener("change", () => set(box.checked));
  return (value) => (box.checked = value);
}

function buildWords(element, control, id, set) {
  element.innerHTML = `<label for="${id}">${control.label}</label><input type="text" id="${id}" spellcheck="false" maxlength="${control.longest ?? 400}">`;
  const box = element.querySelector("input");
  box.addEventListener("input", () => set(box.value));
  return (value) => box.value !== value && (box.value = value);
}
