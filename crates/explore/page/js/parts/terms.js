// The four terms of a score when codes of positions are added to words.
import { choice, range, words as phrase } from "../controls.js";
import { fixed, number } from "../format.js";
import { i, lines, look, n, o, paren, row, sub, subsup, sup, text } from "../math.js";
import { coloured, cut, looks, map, shorten } from "../sentence.js";
import { group, label, measure, rect, widest } from "../svg.js";
import { listed, t } from "../words.js";

/** The terms in the order of the formula: [field, name, colour]; the score is their sum. */
const TERMS = [
  ["content_content", t`word–word`, 2],
  ["content_position", t`word–place`, 3],
  ["position_content", t`place–word`, 4],
  ["position_position", t`place–place`, 6],
  ["score", t`score, the sum`, 7],
];

const [x, p, W, T] = [i("x"), i("p"), i("W"), o("⊤")];
const [m, key, apart] = [i("m"), i("n"), row(i("m"), o("−"), i("n"))];
const words = row(sub(x, m), W, subsup(x, key, T));
/** A query before a vector for the distance, and what a key ends with. */
const query = row(sub(x, m), sub(W, i("Q")), subsup(i("R"), apart, T));
const end = row(subsup(W, i("K"), T), subsup(x, key, T));

/** What becomes of the four terms elsewhere: kept, replaced or left out, in a sentence and as a formula. */
const MODELS = {
  added: {
    name: t`Added codes`,
    fate: ["kept", "kept", "kept", "kept"],
    about: t`as in the Transformer of 2017 and in BERT: all four terms, with codes of absolute positions.`,
    formula: [],
  },
  shaw: {
    name: "Shaw",
    fate: ["kept", "replaced", "dropped", "dropped"],
    about: t`keeps word–word; in word–place the code becomes a learned vector for the distance, clipped; the query’s place goes, and with it the last two. Values get such vectors too.`,
    formula: [row(words, o("+"), query)],
  },
  xlnet: {
    name: "XLNet",
    fate: ["kept", "replaced", "replaced", "replaced"],
    about: t`has all four, as Transformer-XL: the key’s place becomes sines and cosines of the distance with a projection of their own, the query’s place two learned vectors u and v.`,
    formula: [row(words, o("+"), query), row(o("+"), i("u"), end, o("+"), i("v"), subsup(i("R"), apart, T))],
  },
  t5: {
    name: "T5",
    fate: ["kept", "dropped", "dropped", "replaced"],
    about: t`keeps word–word; place–place becomes one learned number for each head and bucket of distances; the mixed terms go.`,
    formula: [row(words, o("+"), sub(i("b"), apart))],
  },
  deberta: {
    name: "DeBERTa",
    fate: ["kept", "replaced", "replaced", "dropped"],
    about: t`keeps word–word; both mixed terms, with learned vectors for the clipped distance in place of codes; place–place goes.`,
    formula: [row(words, o("+"), query), row(o("+"), subsup(i("R"), row(key, o("−"), m), o("′")), end)],
  },
  rotary: {
    name: t`Rotary`,
    fate: ["replaced", "dropped", "dropped", "dropped"],
    about: t`adds no code at all: a rotation by the distance stands in the middle of word–word.`,
    formula: [row(sub(x, m), sub(W, i("Q")), sub(i("R"), row(key, o("−"), m)), end)],
  },
};

/** What a term that is not kept shows in its place. */
const FATES = { replaced: t`replaced`, dropped: t`left out` };

/** Where the words of the sentence are written, above the matrices. */
function sentence(words, width) {
  let [x, y] = [0, 14];
  return words.map((word) => {
    const name = shorten(word, 12);
    const wide = Math.max(26, measure(name, 12.5, 600));
    if (x > 0 && x + wide > width) [x, y] = [0, y + 34];
    const at = { x, y, name };
    x += wide + 14;
    return at;
  });
}

/** Where the five matrices are: two by two and their sum beside or below them. */
function layout(words, width) {
  const count = words.length;
  const isBeside = width >= 560;
  const [edge, gap, above] = [count > 10 ? 25 : 18, 24, 44];
  const half = ((isBeside ? width * 0.62 : width) - gap) / 2 - edge;
  const cell = Math.min(30, half / count);
  const size = cell * count;
  const top = sentence(words, width).at(-1).y + 26;
  const box = (across, down) => ({ x: edge + across * (half + edge + gap), y: top + above + down * (size + above + 6), cell });
  const boxes = [box(0, 0), box(1, 0), box(0, 1), box(1, 1)];
  const below = top + 2 * (size + above + 6);
  if (isBeside) {
    const start = 2 * (half + edge + gap) + edge;
    const large = Math.min(40, (width - start) / count);
    boxes.push({ x: start, y: (top + above + below - large * count) / 2, cell: large });
    return { boxes, height: Math.max(below, boxes[4].y + large * count + 18) + 4 };
  }
  const large = Math.min(30, (width - edge) / count);
  boxes.push({ x: edge, y: below + above, cell: large });
  return { boxes, height: below + above + large * count + 22 };
}

const clamp = (place, count) => Math.max(0, Math.min(count - 1, place));
/** Chosen query and key, within the sentence. */
const chosen = (data, state) => [clamp(state.m, data.words.length), clamp(state.n, data.words.length)];

export default {
  id: "terms",
  title: t`What adding a code does to a score`,
  text: t`<p>The first Transformer adds to each word x the code p of its place, and compares the sums. What stands between a query
    and a key is one matrix W, made of both projections. Multiply (x + p) W (x + p)ᵀ out, and a score is
    <strong>four terms</strong>: how a word fits a word, a word a place, a place a word, and a place a place.</p>
    <p>Drag the marked cell. <output data-value="query"></output> at place <output data-value="m"></output> looks at
    <output data-value="key"></output> at place <output data-value="n"></output>; the four numbers add up to
    <output class="big" data-value="score"></output>.</p>
    <p>Nothing here says <em>distance</em>: with W between them, place–place differs from place to place along its diagonals. Only
    for special ones such as the identity does it depend on m − n alone. Later models keep some of the terms and put the distance
    into others.</p>`,
  controls: {
    text: phrase(t`sentence, up to 12 words`, t`the dog bites the old man`, { longest: 120 }),
    m: range(t`query at m`, 1, 0, 11),
    n: range(t`key at n`, 5, 0, 11),
    strength: range(t`strength of the codes`, 1, 0, 2, { step: 0.05 }),
    between: choice("W", "random", [["random", t`random, as before training`], ["identity", t`identity`]]),
    model: choice(t`what others keep`, "added", Object.entries(MODELS).map(([value, { name }]) => [value, name])),
  },
  route: "terms",
  ask: ({ text, between, strength }) => ({ text, between, strength }),

  values(data, state) {
    const [m, n] = chosen(data, state);
    return { query: `“${data.words[m]}”`, key: `“${data.words[n]}”`, m: String(m), n: String(n), score: fixed(data.score[m][n], 4) };
  },

  formula(data, state) {
    const [at, other] = chosen(data, state);
    const value = ([field, , series], index) => {
      const number = data[field][at][other];
      return (index ? o(number < 0 ? "−" : "+") : number < 0 ? o("−") : "") + look(series, n(fixed(Math.abs(number), 3)));
    };
    const [a, b, c, d] = [[x, x], [x, p], [p, x], [p, p]].map(([left, right], index) => look(TERMS[index][2], sub(left, m), W, subsup(right, key, T)));
    const own = lines(
      [sub(i("s"), row(m, key)), row(o("="), a, o("+"), b)],
      ["", row(o("+"), c, o("+"), d)],
      ["", row(o("="), ...TERMS.slice(0, 4).map(value))],
      ["", row(o("="), look(7, n(fixed(data.score[at][other], 3))), text(t` at `), m, o("="), n(at), o(","), key, o("="), n(other))],
    );
    const { name, formula } = MODELS[state.model];
    return formula.length ? lines([own], [text(t`${name}:`)], ...formula.map((line) => [line])) : own;
  },

  draw(data, state, width) {
    const count = data.words.length;
    const colours = looks(data.words);
    const { boxes, height } = layout(data.words, width);
    const reach = Math.max(...TERMS.flatMap(([field]) => data[field].flat().map(Math.abs)), 1e-9);
    // As many numbers of places as there is room for.
    const numbers = (room, least) => data.words.map((_, place) => [place % Math.ceil(least / room) ? "" : String(place), colours[place]]);
    const wide = widest([String(count - 1)], 12, 600) + 6;
    const [at, other] = chosen(data, state);
    const { fate } = MODELS[state.model];
    const maps = TERMS.map(([field, name, series], index) => {
      const { x, y, cell } = boxes[index];
      const what = fate[index] ?? "kept";
      const title = coloured(series, x, y - 26, name) + coloured(series, x + measure(name, 12, 600) + 9, y - 26, fixed(data[field][at][other], width < 480 ? 2 : 3));
      const edge = { fill: "transparent", style: "stroke: var(--ink); stroke-width: 2.5" };
      const marker = rect(x + other * cell, y + at * cell, cell, cell, { class: "handle", "data-drag": `cell${index}`, ...edge });
      const drawn = map(data[field], { x, y, cell, rows: numbers(cell, 13), columns: numbers(cell, wide), low: -reach, high: reach });
      if (what === "kept") return title + drawn + marker;
      const half = (count * cell) / 2;
      const said = label(x + half, y + half + 4, FATES[what], { anchor: "middle", class: "strong" });
      return title + group({ opacity: what === "replaced" ? 0.35 : 0.12 }, drawn) + said + marker;
    });
    const words = sentence(data.words, width).map(({ x, y, name }, place) => {
      const role = [place === at ? "q" : "", place === other ? "k" : ""].filter(Boolean).join(", ");
      return coloured(colours[place], x, y, name) + label(x, y + 15, role ? `${place} ${role}` : place, role ? { class: "strong" } : {});
    });
    const key = label(boxes[4].x, boxes[4].y + count * boxes[4].cell + 17, t`blue is positive, orange negative`);
    return { height, content: words.join("") + maps.join("") + key };
  },

  drag: Object.fromEntries(
    TERMS.map((_, index) => [
      `cell${index}`,
      (point, { data, width }) => {
        const { x, y, cell } = layout(data.words, width).boxes[index];
        return { m: clamp(Math.floor((point.y - y) / cell), data.words.length), n: clamp(Math.floor((point.x - x) / cell), data.words.length) };
      },
    ]),
  ),

  hover(point, { data, width }) {
    const count = data.words.length;
    for (const [index, { x, y, cell }] of layout(data.words, width).boxes.entries()) {
      const [m, n] = [Math.floor((point.y - y) / cell), Math.floor((point.x - x) / cell)];
      if (m < 0 || m >= count || n < 0 || n >= count) continue;
      const [field, name] = TERMS[index];
      return t`${name}, “${data.words[m]}” at ${m} and “${data.words[n]}” at ${n}: ${number(data[field][m][n])}`;
    }
  },

  html(_, { model }) {
    const entry = ([value, { name, about }]) => `<li${value === model ? "" : ' class="soft"'}><strong>${name}</strong> ${about}</li>`;
    return `<ul>${Object.entries(MODELS).map(entry).join("")}</ul>`;
  },

  setup(section, { now, set }) {
    // No place lies beyond the sentence.
    const keep = async () => {
      const { text, m, n } = now();
      const words = await cut(text).catch(() => []);
      if (now().text !== text) return;
      const last = Math.max(0, words.length - 1);
      if (m > last || n > last) set({ m: Math.min(m, last), n: Math.min(n, last) });
    };
    for (const event of ["input", "change"]) section.querySelector(".controls").addEventListener(event, keep);
    keep();
  },

  table: (data) => ({
    columns: ["m", "n", "query", "key", ...TERMS.map(([field]) => field)],
    rows: data.words.flatMap((query, m) => data.words.map((key, n) => [m, n, query, key, ...TERMS.map(([field]) => data[field][m][n])])),
  }),

  describe(data, state) {
    const [m, n] = chosen(data, state);
    return t`Four matrices of words against words and their sum. At query ${m} and key ${n}: ${listed(TERMS.map(([field, name]) => `${name} ${fixed(data[field][m][n], 3)}`))}.`;
  },
};
