// Words that change places without a pointer: a button for each, and buttons for all at once.
import { cut, shorten, split } from "../../sentence.js";
import { state } from "../../state.js";
import { t } from "../../words.js";

const ALL = [
  [t`Shuffle`, shuffled],
  [t`Reverse`, (places) => [...places].reverse()],
  [t`As written`, (places) => places.map((_, place) => place)],
];

/** Puts them where the control of the places is, which itself is not shown. */
export function moves(section, { now, set }, placesOf, moved) {
  const control = section.querySelector("#order-places").parentElement;
  control.querySelector("label").remove();
  control.querySelector("input").hidden = true;
  control.insertAdjacentHTML(
    "beforeend",
    `<span class="label" id="order-moves">${t`order: drag words in the figure, or choose one here and press ← or →`}</span>
    <div class="choices" role="group" aria-labelledby="order-moves"></div>
    <div class="choices" style="margin-top: .4rem">${ALL.map(([name], index) => `<button type="button" data-move="${index}">${name}</button>`).join("")}</div>`,
  );
  const [words, all] = control.querySelectorAll(".choices");
  all.addEventListener("click", (event) => {
    const [, action] = ALL[event.target.dataset.move] ?? [];
    if (action) set({ places: action(placesOf(now())).join(",") });
  });
  words.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const word = Number(event.target.dataset.word);
    if (!by || Number.isNaN(word)) return;
    event.preventDefault();
    const places = placesOf(now());
    const from = places.indexOf(word);
    set({ places: moved(places, from, Math.max(0, Math.min(places.length - 1, from + by))) });
    // The buttons are new ones now.
    shown.then(() => words.querySelector(`[data-word="${word}"]`)?.focus());
  });
  const show = async () => {
    // Chinese is cut by the server; what is not a sentence has no buttons.
    const text = await cut(now().text).catch(() => []);
    if (text.length !== split(now().text).length) return;
    words.replaceChildren(...placesOf(now()).map((word, place) => button(text[word], word, place)));
  };
  let shown = show();
  state.listen((keys) => (keys.has("order.text") || keys.has("order.places")) && (shown = show()));
}

function button(text, word, place) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = shorten(text, 16);
  button.dataset.word = word;
  button.setAttribute("aria-label", t`${text}, place ${place}; arrow keys move it`);
  return button;
}

/** Another order, by chance. */
function shuffled(places) {
  const list = [...places];
  do {
    for (let last = list.length - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * (last + 1));
      [list[last], list[other]] = [list[other], list[last]];
    }
  } while (list.length > 1 && list.every((word, place) => word === places[place]));
  return list;
}
