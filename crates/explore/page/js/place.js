// The place of the page that was asked for: one part at the top of the window. Parts are drawn when they come near, and those
// above it grow then, so the place is held until the reader goes elsewhere.

const root = document.documentElement;
const listeners = new Set();
let part = null; // the one that is held
let kept = 0; // how far the page is scrolled for it

// The address says which part is looked at. Where a browser remembers to have been would count as the reader's own scrolling.
history.scrollRestoration = "manual";

/** The part that is held at the top of the window, or null. */
export const held = () => part;

/** Brings a part to the top of the window and holds it there. */
export function goTo(section) {
  part = section;
  // A browser's own way of standing still would count as the reader's own scrolling.
  root.style.overflowAnchor = "none";
  put();
  announce();
}

/** Calls when a part is held, and when it is no longer. */
export const listen = (listener) => listeners.add(listener);

/** Stands still whatever these elements become. Sizes are observed after layout and before painting, so nothing is seen to move. */
export function watch(elements) {
  const observer = new ResizeObserver(() => {
    if (part && !leave()) put();
  });
  for (const element of elements) observer.observe(element);
}

addEventListener("scroll", () => part && leave());

function put() {
  part.scrollIntoView({ behavior: "instant" });
  kept = scrollY;
}

/** Lets go if the page was scrolled by anyone else, and says whether it was. */
function leave() {
  // A page that has become shorter is scrolled to its end by that alone.
  const isCut = scrollY < kept && scrollY >= root.scrollHeight - root.clientHeight - 1;
  if (Math.abs(scrollY - kept) <= 1 || isCut) return false;
  part = null;
  root.style.overflowAnchor = "";
  announce();
  return true;
}

function announce() {
  for (const listener of listeners) listener();
}
