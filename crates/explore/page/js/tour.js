// A way through the page in the order of the notes: a bar at the foot of the window with a few sentences for each stop. The
// address says where the reader is, `#tour=notes&stop=4`, so that a lesson can link to a stop.
import { goTo } from "./place.js";
import { state } from "./state.js";
import { t } from "./words.js";

/** The stops: [part, heading, a few sentences, what is set there]. */
const STOPS = [
  ["order", t`Why positions?`, t`Attention compares words, and forgets where they stand: move the words and nothing changes but the order of the rows. So a position has to be told.`],
  ["codes", t`Absolute codes`, t`The first answer is a code for each position, added to the word. Look at what shares, numbers and binary digits lack, and how sines and cosines mend it.`],
  ["complex", t`Complex numbers`, t`Two features are one complex number, and multiplying it by e<sup>iθ</sup> turns it. The inner product of two of them is Re[q·k*]: angles are subtracted.`],
  ["tokens", t`Two dimensions`, t`Turn the query by mθ and the key by nθ, here with a single pair. Drag the bar between them: the score depends on m − n, though each was turned by its own position alone.`, { "tokens.dim": "2" }],
  ["clocks", t`Many dimensions`, t`A head has many pairs, each with a θ of its own, from fast to slow: θ = base<sup>−2j/d</sup>. Move the base, and see which clocks never come round.`],
  ["decay", t`Long-term decay`, t`The paper proves that a bound falls with the distance. Try the other curves as well: a score below the bound need not fall.`],
  ["linear", t`Linear attention`, t`A rotation acts on q and k one by one, so that linear attention takes it at no cost. Mind what becomes of its weights.`],
  ["receptive", t`Receptive field`, t`A variant moves all frequencies towards a common one. See what α and ρ do, and what they do not.`],
  ["pairing", t`Implementations`, t`Code that pairs neighbours and code that pairs halves are both rotary embedding, with other weights. Check which one a model has; then look at the exactness of angles, and at a model of your own.`],
];

for (const key of ["tour", "stop"]) state.declare(key, "");
const isOn = () => state.get("tour") === "notes";
const place = () => Math.min(STOPS.length, Math.max(1, Math.round(Number(state.get("stop"))) || 1)) - 1;

const bar = document.createElement("aside");
bar.className = "tour";
bar.setAttribute("aria-label", t`The notes, stop by stop`);
bar.innerHTML = `<div class="told" aria-live="polite"><strong></strong> <span class="soft"></span><p></p></div>
  <div class="choices"><button type="button" data-tour="back">${t`← Back`}</button>
  <button type="button" data-tour="next">${t`Next →`}</button><button type="button" data-tour="end">${t`End`}</button></div>`;
bar.addEventListener("click", ({ target }) => {
  const by = { back: -1, next: 1 }[target.dataset.tour];
  if (by) goToStop(place() + by);
  if (target.dataset.tour === "end") state.set({ tour: "", stop: "" });
});

function goToStop(stop) {
  state.set({ tour: "notes", stop: String(stop + 1), ...STOPS[stop][3] });
  goTo(document.getElementById(STOPS[stop][0]));
}

function show() {
  document.body.classList.toggle("touring", isOn());
  if (!isOn()) return bar.remove();
  const [, heading, words] = STOPS[place()];
  bar.querySelector("strong").textContent = heading;
  bar.querySelector("span").textContent = `${place() + 1} / ${STOPS.length}`;
  bar.querySelector("p").innerHTML = words;
  bar.querySelector("[data-tour=back]").disabled = place() === 0;
  bar.querySelector("[data-tour=next]").disabled = place() === STOPS.length - 1;
  if (!bar.isConnected) document.body.append(bar);
}

/** A button that begins it, after others; and the stop that the address names, if it names one and no other part. */
export function offer(row) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "button", textContent: t`Follow the notes, stop by stop` });
  button.addEventListener("click", () => goToStop(0));
  row.append(button);
  state.listen((keys) => (keys.has("tour") || keys.has("stop")) && show());
  show();
  if (isOn() && !document.getElementById(state.get("part") ?? "")) goToStop(place());
}
