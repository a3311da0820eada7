// Figures as files: SVG with its colours inside, PNG, and the data as CSV or JSON; and the address that shows it again.
import { address } from "./state.js";
import { t } from "./words.js";

const LINK = t`Link`;

/** The row of buttons under a figure. */
export function exports(part, figure, now) {
  const row = document.createElement("div");
  row.className = "exports";
  const name = (kind) => `${part.id}.${kind}`;
  const actions = {
    SVG: () => save(name("svg"), new Blob([standalone(figure.svg)], { type: "image/svg+xml" })),
    PNG: async () => save(name("png"), await picture(figure.svg)),
    CSV: () => save(name("csv"), new Blob([csv(part.table(figure.data, now()))], { type: "text/csv" })),
    JSON: () => save(name("json"), new Blob([JSON.stringify(figure.data, null, 1)], { type: "application/json" })),
    [LINK]: (button) => copy(button),
  };
  for (const [label, action] of Object.entries(actions)) {
    if (label === "CSV" && !part.table) continue;
    if ((label === "SVG" || label === "PNG") && !part.draw) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.dataset.export = label === LINK ? "link" : label.toLowerCase();
    button.addEventListener("click", () => figure.data && action(button));
    row.append(button);
  }
  return row;
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function copy(button) {
  const url = new URL(address(), location.href).href;
  history.replaceState(null, "", url);
  try {
    await navigator.clipboard.writeText(url);
    button.textContent = t`Copied`;
  } catch {
    button.textContent = t`In the address bar`;
  }
  setTimeout(() => (button.textContent = LINK), 1500);
}

/** Lines of values with commas between them. */
export function csv({ columns, rows }) {
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "image-rendering"];

/** The SVG with every style written into its elements, on paper of the page's colour. */
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, index) => {
    const style = getComputedStyle(originals[index]);
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "normal" && value !== "auto") element.setAttribute(name, value);
      if (value === "none" && (name === "fill" || name === "stroke")) element.setAttribute(name, value);
    }
    element.removeAttribute("class");
    element.removeAttribute("style");
    for (const { name } of [...element.attributes]) if (name.startsWith("data-")) element.removeAttribute(name);
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.removeAttribute("class");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", width);
  paper.setAttribute("height", height);
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

/** The SVG as a PNG of twice its size. */
export async function picture(svg) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
