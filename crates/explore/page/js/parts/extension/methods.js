// The methods: their names and colours, a sentence on each, and their formulas.
import { frac, i, lines, look, n, o, paren, root, row, sub, sup, text } from "../../math.js";
import { t } from "../../words.js";

/** [key, name, colour, dash]: orange is left for angles that were never seen. */
export const METHODS = [
  ["none", t`none`, 7],
  ["linear", t`linear (PI)`, 4],
  ["ntk", "NTK-aware", 2],
  ["dynamic", t`dynamic NTK`, 5, "6 5"],
  ["yarn", "YaRN", 6],
  ["longrope", "LongRoPE", 3],
  ["llama3", "Llama 3", 0],
];

/** Where the powers of LongRoPE's divisors are set: [name, where, at first]. */
export const POWERS = [
  ["p0", t`the fastest pair`, 0],
  ["p1", t`a quarter of the pairs`, 0.05],
  ["p2", t`half of the pairs`, 0.45],
  ["p3", t`three quarters`, 1.05],
  ["p4", t`the slowest pair`, 1.05],
];
/** The highest of them. */
export const HIGHEST = 1.15;

export const ABOUT = {
  none: t`None: every pair turns on as before, and the slow ones leave all that training has shown.`,
  linear: t`Linear, or position interpolation, squeezes every position by the stretch s: no new angles at all, but every pair loses resolution, the fastest ones too. It needs some fine-tuning.`,
  ntk: t`NTK-aware takes a larger base, such that the fastest pair is kept and the slowest slowed by s: the ones between are slowed by less than s, and some of the slow ones among them still leave the known angles.`,
  dynamic: t`Dynamic NTK is NTK-aware by the length of the text so far: nothing changes within the trained length, and then the base grows with every token (the thin lines: on the way to the target). Keys in a cache were turned with an older base, and must be turned again.`,
  yarn: t`YaRN asks how often a pair turned in training: 32 times or more and it is kept, once or less and it is slowed by s, with a ramp between. It also scales queries and keys a little, so that attention stays sharp among more tokens.`,
  longrope: t`LongRoPE gives each pair a divisor of its own, found by a search that measures a real model. Drag the points to make up a list; it never falls from a pair to the next. Real lists come from that search, and no formula gives them.`,
  llama3: t`Llama 3 is like YaRN with other marks: kept from 4 turns in training on, slowed by s up to one, a ramp between, and no scaling. Its models were then trained on long texts.`,
};

const theta = sub(i("θ"), i("j"));
const turned = sub(row(i("θ"), o("′")), i("j"));
const fraction = frac(row(n(2), i("j")), i("d"));
const s = (data) => row(i("s"), o("="), n(data.stretch, 4));

/** The formula of a method, with its numbers. */
export function formula(method, data, { dim, length, context }) {
  const colour = METHODS.find(([key]) => key === method.key)[2];
  const here = (...parts) => look(colour, ...parts);
  const power = (base) => sup(base, row(o("−"), fraction));
  const grown = frac(i("d"), row(i("d"), o("−"), n(2)));
  const ramp = row(paren(n(1), o("−"), sub(i("γ"), i("j"))), theta, o("+"), sub(i("γ"), i("j")), frac(theta, i("s")));
  const kept = data.stretch === 1 ? text(t`and nothing changes`) : row(sub(i("γ"), i("j")), o("="), n(0), text(t` for the first ${method.kept} pairs, `), n(1), text(t` for the last ${method.divided}`));
  const rules = {
    none: () => [[row(turned, o("="), theta), row(o("="), here(power(n(method.base))))]],
    linear: () => [[turned, row(o("="), frac(theta, i("s")), o("="), frac(theta, here(n(data.stretch, 4))))]],
    ntk: () => [
      [turned, row(o("="), power(paren(i("b"), sup(i("s"), grown))), o("="), power(here(n(method.base, 6))))],
      ["", row(text(t`with `), s(data), o(","), i("d"), o("="), n(dim))],
    ],
    dynamic: () => [
      [turned, row(o("="), power(paren(i("b"), sup(paren(frac(i("ℓ"), i("L"))), grown))), text(t` beyond `), i("L"), o("="), n(length))],
      ["", row(o("="), power(here(n(method.base, 6))), text(t` at `), i("ℓ"), o("="), n(context))],
    ],
    yarn: () => [
      [turned, row(o("="), ramp, text(", "), s(data))],
      ["", kept],
      [i("a"), row(o("="), n(0.1), text(" ln "), i("s"), o("+"), n(1), o("="), here(n(method.attention_factor, 5)))],
    ],
    longrope: () => [
      [turned, row(o("="), frac(theta, sub(i("λ"), i("j"))), text(", "), sub(i("λ"), n(0)), o("="), here(n(method.slowdown[0], 4)), text(t` to `), sub(i("λ"), n(method.slowdown.length - 1)), o("="), here(n(method.slowdown.at(-1), 4)))],
      [i("a"), row(o("="), root(row(n(1), o("+"), frac(row(text("ln "), i("s")), row(text("ln "), i("L"))))), o("="), here(n(method.attention_factor, 5)))],
    ],
    llama3: () => [
      [turned, row(o("="), ramp, text(", "), s(data))],
      [sub(i("γ"), i("j")), row(o("="), frac(row(n(4), o("−"), i("L"), sub(i("θ"), i("j")), o("/"), n(2), i("π")), row(n(4), o("−"), n(1))), text(t` within 0 and 1`))],
      ["", kept],
    ],
  };
  return lines(...rules[method.key]());
}
