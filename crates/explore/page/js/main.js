// The page: its parts in the order in which they teach, and the list of contents.
import { ask, stops } from "./ask.js";
import { mount } from "./part.js";
import { parts } from "./parts/all.js";
import { goTo, held, listen, watch } from "./place.js";
import { state } from "./state.js";
import { offer } from "./tour.js";
import { LANGUAGES, language, say, t } from "./words.js";

const contents = document.querySelector("#contents");
const main = document.querySelector("#main");

// The words that are in the page before its parts are.
document.documentElement.lang = { en: "en", zh: "zh-CN" }[language];
for (const element of document.querySelectorAll("[data-say]")) element.innerHTML = say(element.innerHTML);
document.title = document.querySelector("h1").textContent;
document.body.dataset.drop = t`Drop a config.json`;

// Parts that show what the program was given are functions of it, and are left out if it was given nothing.
const exhibits = await ask("exhibits", {}).catch(() => ({}));
const shown = parts.map((part) => (typeof part === "function" ? part(exhibits) : part)).filter(Boolean);

for (const part of shown) {
  const section = mount(part);
  main.append(section);
  const entry = document.createElement("li");
  entry.innerHTML = `<a href="#${part.id}">${part.title}</a>`;
  // The fragment of the address holds the state, so a link scrolls by itself.
  entry.firstChild.addEventListener("click", (event) => {
    event.preventDefault();
    goTo(section);
    section.querySelector("h2").focus({ preventScroll: true });
  });
  contents.append(entry);
}

// The part that is looked at is marked in the contents and kept in the address: the one that is held, else the one in view.
const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
let inView = null;
const mark = () => {
  const id = held()?.id ?? inView;
  if (!id) return;
  for (const [name, link] of links) {
    if (name === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  state.set({ part: id });
};
const observer = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) inView = entry.target.id;
    mark();
  },
  { rootMargin: "-30% 0px -60% 0px" },
);
for (const section of main.children) observer.observe(section);
listen(mark);

// The part that the address names is held until the reader scrolls; another address in the same window names another.
watch([document.body, ...main.children]);
const follow = () => {
  const wanted = document.getElementById(state.get("part") ?? "");
  if (wanted?.matches("section.part")) goTo(wanted);
};
addEventListener("hashchange", follow);
follow();

// Ways through the page, and the other language. All of the page is in one language, so another loads it anew: its state is in
// the address, and so is the language, for whoever is sent a link.
const ways = document.createElement("p");
ways.className = "ways";
offer(ways);
for (const [code, name] of Object.entries(LANGUAGES).filter(([code]) => code !== language)) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "button", lang: code, textContent: name });
  button.dataset.language = code;
  button.addEventListener("click", () => state.set({ lang: code }));
  ways.append(button);
}
document.querySelector("header").append(ways);
if (stops) {
  const note = document.createElement("p");
  note.className = "soft";
  note.innerHTML = t`This is a copy of the page without its program: it has answers for the usual settings and for stops of the sliders. For any others, and for a model of your own, run <code>roformer explore</code>.`;
  ways.before(note);
}
state.set({ lang: language });
state.listen((keys) => {
  if (!keys.has("lang") || state.get("lang") === language) return;
  // Another address in the same window may name none.
  if (!Object.hasOwn(LANGUAGES, state.get("lang") ?? "")) return state.set({ lang: language });
  state.write();
  location.reload();
});
document.documentElement.dataset.isReady = true;
