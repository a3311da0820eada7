// The state of the page. It is in the address, so that a link reproduces it: `#part=tokens&base=500000&tokens.m=12`.
// A key without a dot is shared by all parts; one with a dot belongs to a part. What is as it was at first is not written.

const values = new Map(); // what differs from the defaults
const defaults = new Map();
const listeners = new Set();

read();
addEventListener("hashchange", () => {
  const before = new Map(values);
  values.clear();
  read();
  const keys = new Set([...before.keys(), ...values.keys()]);
  announce([...keys].filter((key) => before.get(key) !== values.get(key)));
});

function read() {
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) values.set(key, value);
}

let writing = 0;
const put = () => history.replaceState(null, "", address());
function write() {
  // Browsers count changes of the address: one after the last of many is enough.
  clearTimeout(writing);
  writing = setTimeout(put, 150);
}

/** The address of the page as it is now. */
export function address() {
  const query = new URLSearchParams([...values].filter(([key, value]) => value !== defaults.get(key)));
  return `${location.pathname}#${query}`;
}

function announce(keys) {
  if (keys.length) for (const listener of listeners) listener(new Set(keys));
}

export const state = {
  /** Says what a key is when the address does not. Values are strings throughout. */
  declare(key, value) {
    defaults.set(key, value);
  },
  get(key) {
    return values.get(key) ?? defaults.get(key);
  },
  /** Changes keys; whoever listens hears of those that did change. */
  set(changes) {
    const changed = Object.entries(changes).filter(([key, value]) => this.get(key) !== value);
    for (const [key, value] of changed) values.set(key, value);
    if (changed.length) write();
    announce(changed.map(([key]) => key));
  },
  /** Writes the address at once, for a page that is about to be left. */
  write: put,
  /** Calls with the set of changed keys after every change. */
  listen(listener) {
    listeners.add(listener);
  },
};
