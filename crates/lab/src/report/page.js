// Values on hover and by keyboard, one encoding lit across all plots, and the switch of the loss curves.
// The page can be read without it: marks have titles of their own, and the curves are drawn by steps.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.remove("no-script");
  const tip = document.getElementById("tip");

  // One tip instead of the browser's titles.
  for (const mark of document.querySelectorAll(".chart .dot, .chart .cell")) {
    const title = mark.querySelector("title");
    if (!title) continue;
    mark.dataset.tip = title.textContent;
    mark.setAttribute("aria-label", title.textContent);
    mark.setAttribute("role", "img");
    title.remove();
  }

  let pointed = null;
  function point(mark) {
    if (mark === pointed) return;
    if (pointed) pointed.classList.remove("pointed");
    pointed = mark;
    tip.classList.toggle("shown", Boolean(mark));
    if (!mark) return;
    mark.classList.add("pointed");
    tip.textContent = mark.dataset.tip;
    const at = mark.getBoundingClientRect();
    const left = at.left + at.width / 2 - tip.offsetWidth / 2;
    tip.style.left = Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8)) + "px";
    const above = at.top - tip.offsetHeight - 10;
    tip.style.top = (above < 8 ? at.bottom + 10 : above) + "px";
  }

  for (const chart of document.querySelectorAll(".chart")) {
    // Series in the order they are drawn, each with its marks from left to right.
    const series = [...chart.querySelectorAll(".series")]
      .map((group) => [...group.querySelectorAll(".dot, .cell")])
      .filter((marks) => marks.length > 0);
    const marks = series.flat();
    if (marks.length === 0) continue;
    let places = null;

    chart.addEventListener("pointermove", (event) => {
      const under = event.target.closest(".cell[data-tip]");
      if (under) return point(under);
      // Boxes are known only once the chart is shown.
      places ??= marks.map((mark) => {
        const box = mark.getBBox();
        return [box.x + box.width / 2, box.y + box.height / 2];
      });
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      let nearest = null, least = 26 * 26;
      places.forEach(([x, y], index) => {
        const group = marks[index].closest(".series");
        if (group.classList.contains("out")) return;
        if (root.classList.contains("has-lit") && !group.classList.contains("lit")) return;
        const distance = (x - at.x) ** 2 + (y - at.y) ** 2;
        if (distance < least) [nearest, least] = [marks[index], distance];
      });
      point(nearest);
    });
    chart.addEventListener("pointerleave", () => point(null));

    // One stop of the tab key for a chart; arrows walk along a series and from one to the next.
    marks.forEach((mark) => mark.setAttribute("tabindex", "-1"));
    marks[0].setAttribute("tabindex", "0");
    chart.addEventListener("focusin", (event) => point(event.target.closest("[data-tip]")));
    chart.addEventListener("focusout", () => point(null));
    chart.addEventListener("keydown", (event) => {
      const row = series.findIndex((row) => row.includes(event.target));
      if (row < 0) return;
      const column = series[row].indexOf(event.target);
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const to = series[(row + step[0] + series.length) % series.length];
      const mark = to[Math.max(0, Math.min(to.length - 1, column + step[1]))];
      event.target.setAttribute("tabindex", "-1");
      mark.setAttribute("tabindex", "0");
      mark.focus();
    });
  }
  addEventListener("scroll", () => point(null), { passive: true });

  // A chip that is clicked keeps its encoding lit; one that is pointed at, or a label of a plot, lights it meanwhile.
  const all = [...document.querySelectorAll(".series")];
  let kept = null;
  function light(key) {
    root.classList.toggle("has-lit", key !== null);
    for (const element of all) element.classList.toggle("lit", element.dataset.series === key);
  }
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      kept = kept === chip.dataset.key ? null : chip.dataset.key;
      for (const other of document.querySelectorAll(".chip")) {
        other.setAttribute("aria-pressed", String(other.dataset.key === kept));
      }
      light(kept);
    });
  }
  for (const element of document.querySelectorAll(".chip, .chart .name")) {
    const key = element.dataset.key ?? element.closest(".series")?.dataset.series;
    if (key === undefined) continue;
    element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && light(key));
    element.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && light(kept));
  }

  // Rows and lines of the encodings that are named, in part, and rows of one verdict; a part of a table goes with its last row.
  const [named, judged] = document.querySelectorAll(".filter input, .filter select");
  function filter() {
    const parts = named.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    for (const element of all) {
      const key = element.dataset.series.toLowerCase();
      const isNamed = parts.length === 0 || parts.some((part) => key.includes(part));
      const isJudged = !judged.value || !element.matches(".comparisons tr") || element.classList.contains(judged.value);
      element.classList.toggle("out", !(isNamed && isJudged));
    }
    for (const body of document.querySelectorAll("tbody")) {
      const rows = [...body.querySelectorAll("tr.series")];
      body.classList.toggle("out", rows.length > 0 && rows.every((row) => row.classList.contains("out")));
    }
    point(null);
  }
  named?.addEventListener("input", filter);
  judged?.addEventListener("input", filter);

  // Steps, tokens or seconds, for all tasks at once.
  const buttons = [...document.querySelectorAll(".switch button")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      // What is above may change its height: the button stays where it is.
      const before = button.getBoundingClientRect().top;
      root.dataset.against = button.value;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other.value === button.value));
      scrollBy({ top: button.getBoundingClientRect().top - before, behavior: "instant" });
    });
  }

  // Which part is being read.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const id of links.keys()) {
    const part = document.getElementById(id);
    if (part) watch.observe(part);
  }
})();
