// The page: its parts in the order in which they teach, and the list of contents.
import { ask, mount } from "./part.js";
import { parts } from "./parts/all.js";
import { goTo, held, listen, watch } from "./place.js";
import { state } from "./state.js";

const contents = document.querySelector("#contents");
const main = document.querySelector("#main");

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
document.documentElement.dataset.isReady = true;
