// A part of the page: one idea, a figure to drag, a formula beside it.
//
// A part is an object of these fields; all but the first four may be left out.
//   id, title      its place in the address and its heading
//   text           HTML: the idea, in a few sentences; elements with data-value="name" show a value
//   controls       { name: control }, see controls.js
//   route          what it asks of the server, api/<route>, with ask(state) as the query (all controls if there is none)
//   load           async (state) => data, instead of route, for a part that asks in a way of its own
//   draw           (data, state, width) => { height, content }: SVG as text, drawn anew for every change
//   formula        (data, state) => MathML, see math.js
//   values         (data, state) => { name: text } for the elements with data-value
//   html           (data, state) => HTML below the figure, for verdicts and tables
//   drag           { handle: (point, { state, data, width, start }) => changes } for elements with data-drag="handle"
//   hover          (point, { state, data, width }) => text about what lies under the pointer, or nothing
//   table          (data, state) => { columns, rows }: the figure's data, for CSV
//   describe       (data, state) => the figure in one sentence, for those who do not see it
//   play           { control, rate }: a button that moves a control by so much a second
//   setup          (section, { state, set }) => for what only this part has
import { ask, Unanswered } from "./ask.js";
import { build, keyOf, read } from "./controls.js";
import { exports } from "./export.js";
import { Figure } from "./figure.js";
import { state } from "./state.js";
import { t } from "./words.js";

/** The element of a part. It asks for its figure when it comes near the window. */
export function mount(part) {
  part.controls ??= {};
  const section = document.createElement("section");
  section.id = part.id;
  section.className = "part";
  section.innerHTML = `<h2 tabindex="-1">${part.title}</h2>
    <div class="columns">
      <div class="text">${part.text}</div>
      <figure><div class="alert" role="alert" hidden></div><div class="drawing"></div><figcaption></figcaption><div class="below"></div></figure>
      <div class="tools"><div class="formula"></div><div class="controls"></div></div>
    </div>`;
  const find = (selector) => section.querySelector(selector);
  const names = Object.keys(part.controls);
  for (const name of names) find(".controls").append(build(part, name));
  const keys = new Set(names.map((name) => keyOf(part, name)));

  const now = () => Object.fromEntries(names.map((name) => [name, read(part, name)]));
  const set = (changes) =>
    state.set(Object.fromEntries(Object.entries(changes).map(([name, value]) => [keyOf(part, name), String(value)])));
  const figure = new Figure(find(".drawing"), find("figcaption"), part, now, set);
  section.figure = figure; // for whoever asks the page what it shows
  if (part.play) find(".controls").append(player(part, now, set));
  find("figure").append(exports(part, figure, now));

  const show = (data, state) => {
    find(".alert").hidden = true;
    figure.show(data, state);
    if (part.formula) find(".formula").innerHTML = `<math display="block">${part.formula(data, state)}</math>`;
    if (part.html) find(".below").innerHTML = part.html(data, state);
    for (const [name, text] of Object.entries(part.values?.(data, state) ?? {})) {
      for (const element of section.querySelectorAll(`[data-value="${name}"]`)) element.textContent = text;
    }
    fit(find(".formula"));
  };
  const refuse = (message) => {
    find(".alert").hidden = false;
    find(".alert").textContent = message;
  };
  // In a page that has answers for single changes, the way on is to change nothing else.
  let moved = null;
  const leaveOthers = () => {
    const back = document.createElement("button");
    Object.assign(back, { type: "button", className: "button", textContent: t`Set the other controls back` });
    const others = names.filter((name) => keyOf(part, name) !== moved);
    back.addEventListener("click", () => set(Object.fromEntries(others.map((name) => [name, part.controls[name].value]))));
    find(".alert").append(document.createElement("br"), back);
  };
  section.show = show;
  section.refuse = refuse;

  // One question at a time; of those that came meanwhile the last one counts.
  let isAsking = false;
  let isStale = false;
  const refresh = async () => {
    section.isSettled = false;
    if (isAsking) {
      isStale = true;
      return;
    }
    isAsking = true;
    do {
      isStale = false;
      const state = now();
      try {
        const data = part.load ? await part.load(state) : await ask(part.route, part.ask ? part.ask(state) : state);
        if (data) show(data, state);
      } catch (error) {
        refuse(error.message);
        if (error instanceof Unanswered && names.length) leaveOthers();
      }
    } while (isStale);
    isAsking = false;
    await figure.isDrawn;
    section.isSettled = !isAsking;
  };
  section.refresh = refresh;
  part.setup?.(section, { now, set, refresh });

  section.isNear = false; // near the window, so that it is drawn
  const near = new IntersectionObserver(
    (entries) => {
      // Of several that came at once the last is how it stands now.
      section.isNear = entries.at(-1).isIntersecting;
      if (section.isNear && !section.isSettled) refresh();
    },
    { rootMargin: "500px 0px" },
  );
  near.observe(section);
  state.listen((changed) => {
    const own = [...changed].filter((key) => keys.has(key));
    if (!own.length) return;
    moved = own.at(-1);
    section.isSettled = false;
    if (section.isNear) refresh();
  });
  figure.onResize = () => figure.data && figure.show(figure.data, now());
  new ResizeObserver(() => requestAnimationFrame(() => fit(find(".formula")))).observe(find(".formula"));
  return section;
}

/** Makes a formula as small as its place asks for. It stays so until the place changes, and does not swell with every digit. */
function fit(formula) {
  const width = formula.clientWidth;
  if (!width) return; // not laid out yet
  if (Number(formula.dataset.width) !== width) {
    formula.dataset.width = width;
    formula.style.removeProperty("--size");
  }
  if (formula.scrollWidth <= width) return;
  const size = Number(formula.style.getPropertyValue("--size") || 1) * ((width - 1) / formula.scrollWidth);
  formula.style.setProperty("--size", Math.max(0.6, Math.floor(size * 100) / 100));
}

/** A button that moves a control as time passes. With reduced motion it moves in single steps, once a second. */
function player(part, now, set) {
  const { control: name, rate } = part.play;
  const control = part.controls[name];
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "play";
  let started = null; // [time, value]
  const label = () => (button.textContent = started ? t`❚❚ Pause` : t`▶ Play`);
  const step = (time) => {
    if (!started) return;
    started[0] ??= time;
    const passed = (time - started[0]) / 1000;
    const moved = isCalm.matches ? Math.floor(passed) * control.step : Math.floor((passed * rate) / control.step) * control.step;
    const span = control.max - control.min + control.step;
    set({ [name]: Number((control.min + ((started[1] - control.min + moved) % span)).toPrecision(9)) });
    requestAnimationFrame(step);
  };
  button.addEventListener("click", () => {
    started = started ? null : [null, now()[name]];
    label();
    if (started) requestAnimationFrame(step);
  });
  label();
  return button;
}
