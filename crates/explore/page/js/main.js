// The page: its parts in the order in which they teach, and the list of contents.
import { ask, mount } from "./part.js";
import { parts } from "./parts/all.js";
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
    section.scrollIntoView();
    section.querySelector("h2").focus({ preventScroll: true });
  });
  contents.append(entry);
}

// The part in view is marked in the contents and kept in the address.
const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
const inView = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
      state.set({ part: entry.target.id });
    }
  },
  { rootMargin: "-30% 0px -60% 0px" },
);
const wanted = state.get("part");
const target = wanted && document.getElementById(wanted);
if (target) target.scrollIntoView({ behavior: "instant" });
for (const section of main.children) inView.observe(section);
document.documentElement.dataset.isReady = true;
