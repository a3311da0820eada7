// A sentence whose words change places: without positions attention gives every word the output that it had.
import { cellAt, heat } from "../chart.js";
import { ask } from "../ask.js";
import { choice, toggle, words as phrase } from "../controls.js";
import { number } from "../format.js";
import { frac, i, lines, look, matrix, n, o, paren, root, row, sub, sup, text } from "../math.js";
import { coloured, cut, head, looks, map, shorten, split } from "../sentence.js";
import { group, label, measure, rect, widest } from "../svg.js";
import { moves } from "./order/moves.js";
import { t } from "../words.js";

const TEXT = t`the dog bites the old man`;
/** Two words that have changed places. */
const PLACES = t`0,5,2,3,4,1`;
/** A change below this is rounding: outputs are about 1, and each is a sum of a dozen products. */
const ROUNDING = 1e-12;

/** For each place the number of the word that stands there; as written if the state says none that fits. */
function placesOf({ text, places }) {
  const count = split(text).length;
  const list = places.split(",").map(Number);
  const isWhole = list.length === count && new Set(list).size === count && list.every((word) => Number.isInteger(word) && word >= 0 && word < count);
  return isWhole ? list : [...Array(count).keys()];
}

const isMoved = (places) => places.some((word, place) => word !== place);

/** The places after the word at `from` has moved to `to`. */
function moved(places, from, to) {
  const rest = places.filter((_, place) => place !== from);
  return [...rest.slice(0, to), places[from], ...rest.slice(to)].join(",");
}

const ROW = 52;

/** Where the words stand in the figure, in rows as wide as it is. */
function chips(words, width) {
  let [x, y] = [0, 0];
  return words.map((word) => {
    const wide = Math.max(34, measure(shorten(word, 16), 15, 700) + (width < 480 ? 14 : 22));
    if (x > 0 && x + wide > width) [x, y] = [0, y + ROW];
    const chip = { x, y, width: wide };
    x += wide + (width < 480 ? 5 : 8);
    return chip;
  });
}

/** The place under a point, or the nearest. */
function placeAt(point, chips) {
  const away = ({ x, y, width }) => Math.abs(point.x - x - width / 2) + 1000 * Math.max(0, Math.abs(point.y - y - ROW / 2) - ROW / 2);
  return chips.reduce((nearest, chip, place) => (away(chip) < away(chips[nearest]) ? place : nearest), 0);
}

/** Where the two matrices and the outputs are. */
function layout(data, width) {
  const count = data.words.length;
  const names = data.words.map((word) => shorten(word));
  const left = widest(names, 12, 600) + 12;
  const top = 14 + chips(data.places.map((place) => data.words[place]), width).at(-1).y + ROW;
  const beside = (width - 28) / 2 - left;
  const isBeside = beside / count >= 16;
  const cell = Math.min(isBeside ? 44 : 30, (isBeside ? beside : width - left) / count);
  const above = 22 + head(names.map((name) => [name]), cell);
  const size = cell * count;
  const first = { x: left, y: top + above, width: size, height: size };
  const second = isBeside ? { ...first, x: 2 * left + beside + 28 } : { ...first, y: first.y + above + size + 14 };
  const maps = [first, second];
  const outputs = maps[1].y + size + 78;
  return { names, left, top, cell, above, maps, outputs, height: outputs + 19 * count + 6 };
}

export default {
  id: "order",
  title: t`Without positions there is no order`,
  text: t`<p>In attention every word looks at every word. The one that looks has a query q, the one looked at a key k, and their
    product is the score. Both are made of the word’s own vector, and that is the same wherever the word stands.</p>
    <p>Drag a word to another place. The matrix of scores QKᵀ does change, but only as a table that is sorted anew: it becomes
    P·QKᵀ·Pᵀ, its rows and columns moved. <strong>Every word gets the very same output.</strong> That a dog bites a man or a man
    a dog is all the same; and a word that comes twice gets the same output twice.</p>
    <p>Same outputs: <output class="big" data-value="same"></output>. The largest change of any word’s output is
    <output data-value="largest"></output><span data-value="reason"></span>.</p>
    <p>A <em>causal mask</em>, under which a word sees only itself and what stands before it, breaks this symmetry alone, without
    any code of positions. <em>Rotary embedding</em> breaks it too: it turns queries and keys by their places.</p>`,
  controls: {
    text: phrase(t`sentence, up to 12 words`, TEXT, { longest: 120 }),
    places: phrase(t`places`, PLACES),
    causal: toggle(t`causal mask`, false),
    rotary: toggle(t`rotary embedding`, false),
    shown: choice(t`show`, "scores", [["scores", t`scores QKᵀ/√d`], ["weights", t`attention weights`]]),
  },
  async load(state) {
    // How many places there are is known when the words are.
    await cut(state.text);
    return ask("order", { text: state.text, places: placesOf(state).join(","), causal: state.causal, rotary: state.rotary });
  },

  values(data, { causal, rotary }) {
    const isSame = data.largest_change < ROUNDING;
    const seen = rotary ? t`: words see others than before, at other distances` : t`: words see others than before`;
    const other = causal ? seen : t`: scores now depend on distances`;
    const same = isMoved(data.places) ? t`, which is rounding` : t`: no word has moved`;
    return { same: isSame ? t`yes` : t`no`, largest: number(data.largest_change, 3), reason: isSame ? same : other };
  },

  formula(data, { causal, rotary }) {
    const isSame = data.largest_change < ROUNDING;
    const [P, Q, V, T] = [i("P"), i("Q"), i("V"), o("⊤")];
    const mask = causal ? row(o("+"), i("M")) : "";
    const soft = (...inside) => row(text("softmax"), paren(frac(row(...inside), root(i("d"))), mask));
    const turned = (m, w) => row(sub(i("R"), i(m)), sub(i(w), i(m)));
    const rows = [
      [row(soft(P, Q, sup(i("K"), T), sup(P, T)), o("·"), P, V)],
      [row(o(isSame ? "=" : "≠"), P, o("·"), soft(Q, sup(i("K"), T)), o("·"), V)],
      [row(o("max"), o("|"), sup(i("o"), o("′")), o("−"), i("o"), o("|"), o("="), look(isSame ? 2 : 1, n(data.largest_change, 3)))],
    ];
    if (rotary) rows.unshift([row(sub(paren(Q, sup(i("K"), T)), row(i("m"), i("n"))), o("="), turned("m", "q"), o("·"), turned("n", "k"))]);
    const one = data.places.map((word) => data.places.map((_, other) => n(word === other ? "1" : "0")));
    if (data.places.length <= 7) rows.push([row(P, o("="), matrix(one))]);
    return lines(...rows);
  },

  draw(data, { shown }, width) {
    const at = layout(data, width);
    const colours = looks(data.words);
    const standing = data.places.map((word) => data.words[word]);
    const tokens = chips(standing, width).map(({ x, y, width }, place) =>
      group(
        { class: `s${colours[data.places[place]]} handle`, "data-drag": "word", "data-word": data.places[place] },
        rect(x, y + 2, width, 30, { rx: 6, class: "token" }),
        label(x + width / 2, y + 22, shorten(standing[place], 16), { anchor: "middle", class: "on" }),
        label(x + width / 2, y + 46, place, { anchor: "middle" }),
      ),
    );
    const both = [data.written, data.now].map((attention) => attention[shown]);
    const reach = Math.max(...both.flat(2).map(Math.abs));
    const drawn = both.map((values, index) => {
      const names = (index ? data.places : data.words.map((_, word) => word)).map((word) => [at.names[word], colours[word]]);
      const { x, y } = at.maps[index];
      const title = label(x - at.left, y - at.above + 12, index ? t`as it stands now` : t`as written`, { class: "heading" });
      return title + map(values, { x, y, cell: at.cell, rows: names, columns: names, low: shown === "scores" ? -reach : 0, high: reach });
    });
    const shades = width < 480 ? t`Blue +, orange −.` : t`Blue is positive, orange negative.`;
    const key = label(0, at.outputs - 61, t`Rows look at columns. ${shown === "scores" ? shades : t`Deep is much, pale is little.`}`);
    return { height: at.height, content: tokens.join("") + drawn.join("") + key + outputs(data, at, width) };
  },

  drag: {
    // Places are taken from where the words stood at first: those of now move under the pointer.
    word(point, { start, width }) {
      const words = split(start.state.text);
      const places = placesOf(start.state);
      const stood = chips(places.map((word) => words[word]), width);
      return { places: moved(places, placeAt(start.point, stood), placeAt(point, stood)) };
    },
  },

  hover(point, { data, width }) {
    const { maps } = layout(data, width);
    for (const [index, box] of maps.entries()) {
      const cell = cellAt(point, box, data.words.length, data.words.length);
      if (!cell) continue;
      const attention = index ? data.now : data.written;
      const [from, to] = cell.map((place) => data.words[index ? data.places[place] : place]);
      const score = attention.scores[cell[0]][cell[1]];
      if (score === null) return t`“${from}” does not see “${to}”`;
      return t`“${from}” looks at “${to}”: score ${number(score)}, weight ${number(attention.weights[cell[0]][cell[1]])}`;
    }
  },

  setup: (section, page) => moves(section, page, placesOf, moved),

  table(data) {
    const names = (order) => data.written.outputs[0].map((_, feature) => `${order}_${feature}`);
    const cells = (word, place, now) => [word, place, now, data.changes[place], ...data.written.outputs[place], ...data.now.outputs[now]];
    return {
      columns: ["word", "place_written", "place_now", "change", ...names("written"), ...names("now")],
      rows: data.words.map((word, place) => cells(word, place, data.places.indexOf(place))),
    };
  },

  describe: (data) =>
    t`Attention scores of a sentence as written and as it stands now: ${data.places.map((word) => data.words[word]).join(" ")}. ` +
    t`The largest change of any word’s output is ${number(data.largest_change, 3)}.`,
};

/** The outputs word by word, as written and now, and how far they differ. */
function outputs(data, at, width) {
  const count = data.words.length;
  const wide = Math.min(240, (width - at.left - 78) / 2);
  const now = data.words.map((_, word) => data.now.outputs[data.places.indexOf(word)]);
  const reach = Math.max(...data.written.outputs.flat().map(Math.abs), ...now.flat().map(Math.abs));
  const colours = looks(data.words);
  const strip = (values, x, title) =>
    label(x, at.outputs - 8, title) + heat(values, { x, y: at.outputs, width: wide, height: 19 * count, low: -reach, high: reach });
  const end = at.left + 2 * wide + 22;
  const line = (name, word) => {
    const y = at.outputs + 19 * word + 14;
    const change = label(end, y, number(data.changes[word], 2), data.changes[word] < ROUNDING ? {} : { class: "strong" });
    return coloured(colours[word], at.left - 7, y, name, { anchor: "end" }) + change;
  };
  return [
    label(0, at.outputs - 27, t`each word’s output`, { class: "heading" }),
    strip(data.written.outputs, at.left, t`as written`),
    strip(now, at.left + wide + 12, t`now`),
    label(end, at.outputs - 8, t`change`),
    ...at.names.map(line),
  ].join("");
}
