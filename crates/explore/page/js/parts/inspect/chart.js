// A configuration drawn: which features form a pair, wavelengths, what training has seen, and the sum of all cosines.
import { frame, series } from "../../chart.js";
import { count, number } from "../../format.js";
import { arc, circle, group, label, line, measure, rect } from "../../svg.js";
import { lengthMarks, powersOfTen } from "../lengths.js";
import { t } from "../../words.js";

const LEFT = 52;
const RIGHT = 12;

/** The layer type that is looked at, and where things stand at a width. */
export function layout(data, width) {
  const { turning } = data.report.layers[data.layer];
  if (!turning) return { height: 40 };
  const sum = data.sums[data.layer];
  const strip = { y: 66, height: 26 };
  const waves = strip.y + strip.height + 70;
  const tall = Math.max(200, Math.min(300, width * 0.42));
  const seen = waves + tall + 66;
  const sums = turning.training ? seen + 64 + 56 : seen;
  const height = sum ? sums + 150 + 44 : turning.training ? sums : seen - 20;
  const finite = turning.pairs.map(({ wavelength }) => wavelength).filter((value) => value !== null);
  const lengths = [turning.training?.length, turning.length].filter(Boolean);
  const reach = [4.5, 1.7 * Math.max(100, ...finite, ...lengths)];
  const pairs = { domain: [-0.5, turning.pairs.length - 0.5] };
  const chart = (options) => frame({ width, left: LEFT, right: RIGHT, ...options });
  return {
    turning,
    sum,
    strip,
    height,
    feature: (width - LEFT - RIGHT) / turning.head_dim,
    waves: chart({ x: { ...pairs, label: t`pair j, fast to slow` }, y: { domain: reach, log: true, ticks: powersOfTen(reach, tall), label: t`wavelength 2π/θ, tokens` }, top: waves, height: waves + tall + 40 }),
    seen: chart({ x: { ...pairs, ticks: [] }, y: { domain: [0, 1], ticks: [[0, "0"], [0.5, "50 %"], [1, "100 %"]], label: t`part of the circle seen in training` }, top: seen, height: seen + 64, bottom: 0 }),
    sums: sum && chart({ x: { domain: [1, Math.max(2, turning.length)], log: true, ticks: powersOfTen([1, Math.max(2, turning.length)], width - LEFT - RIGHT), label: t`distance between two tokens` }, y: { domain: [Math.min(-0.2, ...sum.mean), 1.02], label: t`mean of all cosines cos Δθ` }, top: sums, height: sums + 150 + 40 }),
  };
}

/** The number of the colour of a pair: seen all round, seen in part, led beyond that. */
const look = (pair) => (pair.is_beyond ? "s1" : pair.seen === null || pair.seen >= 1 ? "s0" : "faded");

export function drawAll(data, state, width) {
  const at = layout(data, width);
  if (!at.turning) return { height: at.height, content: label(4, 24, t`These layers have no rotary embedding.`, { class: "name" }) };
  const chosen = Math.min(state.pair, at.turning.pairs.length - 1);
  return { height: at.height, content: group({}, drawPairing(at, chosen, width), drawWaves(at, chosen), at.turning.training ? drawSeen(at, chosen) : "", at.sum ? drawSum(at) : "") };
}

/** All features of a head in a row, in the shade of their pair. */
function drawPairing({ turning, strip, feature }, chosen, width) {
  const { pairs } = turning;
  const { features } = pairs[chosen];
  const place = (index) => LEFT + (index + 0.5) * feature;
  const words = features ? t`pair ${chosen}: features ${features[0]} and ${features[1]}` : t`which features form a pair is not known: choose a pairing`;
  const cells = pairs.flatMap(({ features }, pair) => (features ?? []).map((index) => rect(LEFT + index * feature, strip.y, feature + 0.3, strip.height, { class: `cell h${9 - Math.floor((8 * pair) / pairs.length)}` })));
  const between = features && arch(place(features[0]), place(features[1]), strip.y - 3);
  const middle = features ? (place(features[0]) + place(features[1])) / 2 : width / 2;
  const wide = measure(words, 13, 700) / 2;
  const frameOf = (index) => rect(LEFT + index * feature - 1, strip.y - 3, feature + 2, strip.height + 6, { class: "line s1", rx: 1 });
  return group(
    {},
    rect(LEFT, strip.y, width - LEFT - RIGHT, strip.height, { class: "ground" }),
    cells,
    features ? group({ class: "s1" }, between, features.map(frameOf)) : "",
    label(Math.max(wide, Math.min(width - wide, middle)), 16, words, { anchor: "middle", class: "heading" }),
    label(LEFT, strip.y + strip.height + 18, t`feature 0`),
    label(width - RIGHT, strip.y + strip.height + 18, turning.head_dim - 1, { anchor: "end" }),
    features ? rect(LEFT, strip.y - 6, width - LEFT - RIGHT, strip.height + 12, { fill: "transparent", class: "handle", "data-drag": "feature" }) : "",
  );
}

/** An arch from one feature to the other. */
function arch(from, to, y) {
  const [reach, rise] = [(to - from) / 2, 36];
  if (reach < rise) return arc((from + to) / 2, y, Math.max(3, reach), 0, Math.PI, { class: "line" });
  const x = (part) => from + part * (to - from);
  const points = Array.from({ length: 33 }, (_, index) => [x(index / 32), y - rise * Math.sin((Math.PI * index) / 32) ** 0.7]);
  return `<path class="line" d="M${points.map((point) => point.map((value) => value.toFixed(1)).join(" ")).join("L")}"/>`;
}

function drawWaves({ waves: chart, turning }, chosen) {
  const { pairs, training, length } = turning;
  const size = Math.max(1.3, Math.min(4, ((chart.right - chart.left) / pairs.length) * 0.4));
  const dot = (pair, index) => (pair.wavelength === null ? "" : circle(chart.x(index), chart.y(pair.wavelength), size, { class: `point ${look(pair)}` }));
  const still = pairs.filter(({ wavelength }) => wavelength === null).length;
  const at = pairs[chosen];
  const marks = lengthMarks(chart, training?.length, length);
  return group(
    {},
    marks.shade,
    chart.axes,
    marks.lines,
    series(chart, pairs.map(({ wavelength }, pair) => [pair, wavelength ?? NaN]), 0, { style: "stroke-width: 1.25", "stroke-opacity": 0.5 }),
    pairs.map(dot),
    line(chart.x(chosen), chart.top, chart.x(chosen), chart.bottom, { class: "level" }),
    at.wavelength === null ? "" : circle(chart.x(chosen), chart.y(at.wavelength), size + 3, { class: "line s1" }),
    still ? label(chart.right - 4, chart.top + 14, t`${still} pairs stand still`, { anchor: "end", class: "name" }) : "",
  );
}

function drawSeen({ seen: chart, turning }, chosen) {
  const wide = (chart.right - chart.left) / turning.pairs.length;
  const bar = (pair, index) => rect(chart.x(index) - wide * 0.42, chart.y(pair.seen), wide * 0.84, chart.bottom - chart.y(pair.seen), { class: `point ${look(pair)}` });
  return group({}, chart.axes, turning.pairs.map(bar), line(chart.x(chosen), chart.top, chart.x(chosen), chart.bottom, { class: "level" }));
}

function drawSum({ sums: chart, sum, turning }) {
  const { negative, searched } = turning.training ?? {};
  const zero = chart.y(0);
  const x = negative && chart.x(negative);
  const isRight = x > (chart.left + chart.right) / 2;
  const words = negative ? t`first negative at distance ${count(negative)}` : t`positive up to distance ${count(searched ?? 0)}`;
  return group(
    {},
    chart.axes,
    line(chart.left, zero, chart.right, zero),
    series(chart, sum.distance.map((distance, index) => [distance, sum.mean[index]]), 0),
    x ? group({ class: "s1" }, line(x, chart.top, x, chart.bottom, { class: "line", "stroke-dasharray": "3 4" }), circle(x, zero, 4, { class: "point" })) : "",
    turning.training ? label(x ? x + (isRight ? -8 : 8) : chart.right, chart.top + 12, words, { anchor: x && !isRight ? "start" : "end", class: "name" }) : "",
  );
}

/** The pair of the feature under a point. */
export function pairOfFeature(point, data, width) {
  const at = layout(data, width);
  const index = Math.floor((point.x - LEFT) / at.feature);
  const pair = at.turning?.pairs.findIndex(({ features }) => features?.includes(index)) ?? -1;
  return pair < 0 ? null : pair;
}

/** What lies under a point, in words. */
export function wordsAt(point, data, width) {
  const at = layout(data, width);
  if (!at.turning) return null;
  const isIn = (chart) => chart && point.y > chart.top && point.y < chart.bottom + 20 && point.x > chart.left && point.x < chart.right;
  if (at.sum && isIn(at.sums)) {
    const distance = at.sums.x.invert(point.x);
    const index = at.sum.distance.findLastIndex((value) => value <= distance);
    return index < 0 ? null : t`Distance ${count(at.sum.distance[index])}: mean of all cosines ${number(at.sum.mean[index], 3)}`;
  }
  if (!isIn(at.waves) && !isIn(at.seen)) return null;
  const pair = Math.max(0, Math.min(at.turning.pairs.length - 1, Math.round(at.waves.x.invert(point.x))));
  return about(at.turning, pair);
}

/** One pair in words. */
export function about({ pairs, length }, pair) {
  const { features, wavelength, turns, seen } = pairs[pair];
  const words = [features ? t`features ${features[0]} and ${features[1]}` : "", wavelength === null ? t`stands still` : t`a turn takes ${number(wavelength, 4)} tokens`];
  if (turns !== null) words.push(t`${number(turns, 3)} turns in ${count(length)}`);
  if (seen !== null) words.push(t`${number(100 * seen, 3)} % of the circle seen in training`);
  return t`Pair ${pair}: ${words.filter(Boolean).join(t`; `)}`;
}
