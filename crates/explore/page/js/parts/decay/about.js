// What each curve says, in words and as a formula.
import { count, fixed, number } from "../../format.js";
import { frac, i, lines, look, n, o, row, sub, subsup, sum, sup, text as words, angle } from "../../math.js";
import { t } from "../../words.js";

/** Digits after the point: S(377) of the three cosines is 2.99996, and not quite 3. */
export const digitsOf = (curve) => (curve === "three" ? 5 : 4);

/** A row at full height, as outside of a table. */
export const tall = (...parts) => `<mstyle displaystyle="true">${row(...parts)}</mstyle>`;

/** The curves in the order of the buttons: [value, label]. */
export const CURVES = [
  ["bound", t`the paper’s bound`],
  ["ones", t`alike`],
  ["random", t`random`],
  ["own", t`your own`],
  ["three", t`three cosines`],
  ["one", t`a single pair`],
];

/** Controls that only some curves have. */
export const CONTROLS = {
  bound: ["dim", "base"],
  ones: ["dim", "base"],
  random: ["dim", "base", "share", "seed"],
  own: ["base", "q", "k", "aim"],
  three: [],
  one: ["theta", "phase"],
};

/** A few sentences on a curve. */
export function about(data, { curve, theta, phase, share }) {
  const far = data.marks;
  const usual = data.usual ? t` The dashed line is base 10 000, for comparison.` : "";
  return {
    bound: () =>
      t`However a query and a key look: their score at distance Δ is at most a constant of the two times this curve. The curve falls on the whole and swings on the way. It is a ceiling, for one fixed q and k, and nothing says that a score comes near it. With a larger base it falls later on the whole, though not at every distance.${usual}`,
    ones: () => {
      const first = data.first_negative;
      const where = first === null ? t`Up to Δ = ${count(data.searched)} it stays above zero.` : t`At Δ = ${count(first)} it is negative for the first time: there a key just like the query scores less than a key that has nothing to do with it, which scores 0 on average.`;
      return t`Every pair of q and k alike and of length 1: the score is the plain sum of cosines. It falls as the pairs get out of step. ${where} On the whole a larger base moves that distance out, but not steadily, because the sum swings as it falls: for d = 128 it is ${count(1707)} at base ${count(10000)}, ${count(1554)} at ${count(12000)} and ${count(7757)} at ${count(100000)}.${usual}`;
    },
    random: () =>
      share === 0
        ? t`If q and k are drawn by chance and have nothing in common, the expected score is zero at every distance. Scores stray from it by √d = ${fixed(data.deviation, 2)}, near and far alike: that is the band, and the thin lines are three examples. There is no decay here at all. Decay comes from what q and k share: give both a common mean, and watch it appear.`
        : t`Every feature of q and k now has the mean ${number(share)}, and the expected score falls with the distance as that of alike vectors does. What the two share decays. What they do not share, the band of ±${fixed(data.deviation, 2)} around it, is as wide far away as it is near.`,
    own: () =>
      t`Drag the hands: blue is the query, orange the key, one clock a pair. Each pair adds the product of the two lengths times the cosine of Δθ plus the angle between them. Nothing makes nearest best: turn every key hand ahead by r·θ, and the score is highest at distance r. Now it is highest at Δ = ${count(far[0].distance)}, of the distances from 0 to ${count(data.searched)}.`,
    three: () =>
      t`An explanation that is often given takes three frequencies, 1, 0.3 and 0.05, and reads off S(2) = ${number(far[1].value, 3)} and S(50) = ${number(far[3].value, 3)}: “the farther, the lower”. Look on. S(20) is ${number(far[2].value)}, more than S(2). At 126 it is ${number(far[4].value, 3)} of 3, and at 377 all three cosines are at their top again: ${number(far[5].value, 6)}. A sum of a few cosines does not fade; it comes back.`,
    one: () =>
      t`A single pair with frequency θ = ${number(theta)}. “A larger θ is more local” holds only while Δθ stays well under π, in the shaded part. At Δ = ${number(far[1].distance, 3)} the score is lowest, at ${number(far[2].distance, 3)} it is back at the top. ${phase === 0 ? t`Give the key a phase, and the peak leaves Δ = 0.` : t`The key is ahead by ${number(phase)}, so the peak is at ${number(phase)}/θ = ${number(far[0].distance, 3)}.`}`,
  }[curve]();
}

/** The curve's formula, with its value where the cursor stands. */
export function formula(data, { curve, at, theta, phase }) {
  const delta = i("Δ");
  const thetas = sub(i("θ"), i("j"));
  const value = row(look(0, n(fixed(data.value, digitsOf(curve)))), words(t` at `), delta, o("="), n(count(at)));
  const score = angle(sub(i("R"), i("m")), i("q"), o(","), sub(i("R"), i("n")), i("k"));
  const cosine = (factor) => row(i("cos"), o("⁡"), factor === 1 ? delta : row(n(factor), delta));
  const shown = {
    bound: () => [
      [row(o("|"), score, o("|")), row(o("≤"), i("C"), o("·"), i("B"), o("("), delta, o(")"), words(t`, C of q and k alone`))],
      [row(i("B"), o("("), delta, o(")")), tall(o("="), frac(n(2), i("d")), sum(row(i("j"), o("="), n(1)), row(i("d"), o("/"), n(2))), o("|"), sum(row(i("l"), o("<"), i("j"))), sup(i("e"), row(i("i"), delta, sub(i("θ"), i("l")))), o("|"))],
      ["", row(o("="), value)],
    ],
    ones: () => [
      [score, tall(o("="), sum(i("j")), i("cos"), o("⁡"), delta, thetas)],
      ["", row(o("="), value)],
    ],
    random: () => [
      [row(i("E"), o("["), score, o("]")), row(o("="), value)],
      [row(i("σ")), row(o("="), look(0, n(fixed(data.deviation, 4))), words(t` at every `), delta)],
    ],
    own: () => [
      [score, tall(o("="), sum(i("j")), words("Re"), o("["), sub(look(0, i("q")), i("j")), subsup(look(1, i("k")), i("j"), o("*")), sup(i("e"), row(i("i"), delta, thetas)), o("]"))],
      ["", row(o("="), value)],
    ],
    three: () => [
      [row(i("S"), o("("), delta, o(")")), row(o("="), cosine(1), o("+"), cosine(0.3), o("+"), cosine(0.05))],
      ["", row(o("="), value)],
    ],
    one: () => [
      [score, row(o("="), i("cos"), o("("), delta, i("θ"), phase ? o("−") + i("φ") : "", o(")"))],
      ["", row(o("="), i("cos"), o("("), n(count(at)), o("·"), n(theta), phase ? o(phase < 0 ? "+" : "−") + n(Math.abs(phase)) : "", o(")"))],
      ["", row(o("="), look(0, n(fixed(data.value, 4))))],
    ],
  }[curve]();
  return lines(...shown);
}
