// A figure: SVG as wide as its column, drawn anew from data; handles in it can be dragged, values pointed at.

export class Figure {
  #caption;
  #part;
  #frame = 0;
  #drawn = null;
  #tell = null;
  /** The last data shown, as the server gave it. */
  data = null;
  /** A promise that the last data is drawn. */
  isDrawn = null;
  onResize = () => {};

  constructor(host, caption, part, now, set) {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("class", "chart");
    this.svg.setAttribute("role", "img");
    host.append(this.svg);
    this.#caption = caption;
    this.#part = part;
    this.#drags(now, set);
    if (part.hover) this.#hovers(now);
    new ResizeObserver(() => this.width !== this.drawn && this.onResize()).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.onResize());
  }

  /** Pixels across. */
  get width() {
    return Math.round(this.svg.parentElement.clientWidth) || 640;
  }

  /** Draws data before the next frame; of several within one frame the last. */
  show(data, state) {
    this.data = data;
    if (!this.#part.draw) return this.svg.setAttribute("hidden", "");
    cancelAnimationFrame(this.#frame);
    this.#drawn?.();
    this.isDrawn = new Promise((resolve) => (this.#drawn = resolve));
    this.#frame = requestAnimationFrame(() => {
      const width = this.width;
      this.drawn = width;
      const { height, content } = this.#part.draw(data, state, width);
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("height", height);
      this.svg.innerHTML = content;
      const about = this.#part.describe?.(data, state);
      if (about) this.svg.setAttribute("aria-label", about);
      this.#tell?.();
      this.#drawn();
    });
  }

  #point(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = this.drawn / box.width;
    return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
  }

  #drags(now, set) {
    let held = null; // { handle, start: { point, state } }
    this.svg.addEventListener("pointerdown", (event) => {
      const handle = event.target.closest("[data-drag]")?.dataset.drag;
      if (!handle || !this.data) return;
      // The svg keeps the pointer: what was touched is drawn anew while it is held.
      this.svg.setPointerCapture(event.pointerId);
      held = { handle, start: { point: this.#point(event), state: now() } };
      this.svg.classList.add("held");
      event.preventDefault();
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const context = { state: now(), data: this.data, width: this.drawn, start: held.start };
      const changes = this.#part.drag[held.handle]?.(this.#point(event), context);
      if (changes) set(changes);
    });
    const release = () => {
      held = null;
      this.svg.classList.remove("held");
    };
    this.svg.addEventListener("pointerup", release);
    this.svg.addEventListener("pointercancel", release);
  }

  /** Says what lies under the pointer, also when that changes and the pointer does not. */
  #hovers(now) {
    let at = null;
    this.#tell = () => {
      if (!this.data || !at) return;
      const context = { state: now(), data: this.data, width: this.drawn };
      this.#caption.textContent = this.#part.hover(at, context) ?? "";
    };
    this.svg.addEventListener("pointermove", (event) => {
      at = this.#point(event);
      this.#tell();
    });
    this.svg.addEventListener("pointerleave", () => {
      at = null;
      this.#caption.textContent = "";
    });
  }
}
