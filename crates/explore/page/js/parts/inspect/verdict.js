// The verdict on a configuration as HTML: what `roformer inspect` prints.
import { count, escape, number } from "../../format.js";
import { t } from "../../words.js";

const list = (items) => `<ul>${items.map((item) => `<li>${escape(item)}</li>`).join("")}</ul>`;
const span = ([first, last], format = (value) => number(value ?? Infinity, 3)) => (first === last ? format(first) : `${format(first)} – ${format(last)}`);
const table = (head, rows, look = "") =>
  `<table class="${look}"><thead><tr>${head.map((cell) => `<th scope="col">${cell}</th>`).join("")}</tr></thead>
   <tbody>${rows.map(([name, ...cells]) => `<tr><th scope="row">${name}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("")}</tbody></table>`;

/** All of it, for one layer type. */
export function verdict({ report, object, source, layer }, isObjectOpen) {
  const { turning } = report.layers[layer];
  const facts = [
    [t`model type`, escape(report.model_type ?? t`unknown`)],
    [t`pairing`, escape(report.pairing)],
    ...(report.max_position_embeddings ? [[t`takes`, t`${count(report.max_position_embeddings)} tokens (max_position_embeddings)`]] : []),
    ...(turning ? rule(turning) : [[t`rule`, t`no rotary embedding in these layers`]]),
  ];
  const notes = [...report.warnings, ...(source.isInAddress ? [] : [t`This configuration is too long for an address: a link to this page does not hold it.`])];
  return `<table class="facts"><tbody>${facts.map(([name, text]) => `<tr><th scope="row">${name}</th><td>${text}</td></tr>`).join("")}</tbody></table>
    ${notes.length ? `<div class="notes">${list(notes)}</div>` : ""}
    ${turning ? bands(turning) : ""}
    ${turning?.training ? `<h3>${t`What follows`}</h3>${list(turning.training.findings)}` : ""}
    ${turning?.advice ? advice(turning.advice) : ""}
    <details${isObjectOpen ? " open" : ""}><summary>${t`What <code>roformer inspect --json</code> prints`}</summary><pre data-object>${escape(JSON.stringify(object, null, 1))}</pre></details>`;
}

const rule = (turning) => [
  [t`rule`, escape(turning.rule)],
  [t`base`, number(turning.base, 9)],
  [t`head`, escape(turning.head)],
  ...(turning.attention_factor === 1 ? [] : [[t`attention`, t`turned vectors are scaled by ${number(turning.attention_factor, 7)}, scores by its square`]]),
];

function bands({ bands, length }) {
  const rows = bands.map((band) => [span(band.pairs, count), span(band.wavelengths), ...(band.turns ? [span(band.turns)] : []), escape(band.change)]);
  return `<h3>${t`Bands of pairs`}</h3>${table([t`pairs`, t`wavelength, tokens`, ...(length ? [t`turns in ${count(length)}`] : []), t`what the rule does`], rows, "bands")}`;
}

function advice({ trained, context, candidates, verdict, settings }) {
  const rows = candidates.map((rule) => [escape(rule.name), count(rule.unseen), count(rule.kept), number(rule.crowding, 4), number(rule.attention_factor, 5)]);
  const setting = ({ tool, text, reason }) =>
    `<div class="setting"><h4>${escape(tool)}</h4><p class="soft">${escape(reason)}</p><pre>${escape(text)}</pre><button type="button" class="button" data-copy>${t`Copy`}</button></div>`;
  return `<h3>${t`At ${count(context)} tokens, ${number(context / trained, 4)} times the ${count(trained)} of training`}</h3>
    <p class="verdict"><strong>${escape(verdict)}</strong></p>
    ${table([t`rule`, t`unseen pairs`, t`unchanged pairs`, t`neighbours closer by`, t`attention factor`], rows)}
    ${settings.length ? `<h3>${t`Settings to paste`}</h3>${settings.map(setting).join("")}` : ""}`;
}
