// The two languages of the page. English is written where it is used: t`${count} tokens`. What stands for it in Chinese is in
// words/zh/, found by the English with {0}, {1}, … for its values; whoever changes one finds the other by a test.
import { PAIRS } from "./words/zh.js";

/** The languages that there are, by their codes, each in its own words. */
export const LANGUAGES = { en: "English", zh: "中文" };

const isKnown = (code) => Object.hasOwn(LANGUAGES, code);
const asked = new URLSearchParams(location.hash.slice(1)).get("lang");
const preferred = navigator.languages.map((name) => name.split("-")[0].toLowerCase());

/** The language of the page: the one that the address names, else the first of the browser's that there is, else English. */
export const language = isKnown(asked) ? asked : (preferred.find(isKnown) ?? "en");

/** English as it is looked for: lines may break anywhere in it. */
export const squeeze = (text) => text.replace(/\s+/g, " ");
/** Chinese has no spaces where its lines break. */
const joined = (text) => text.replace(/\s*\n\s*/g, "");

const chinese = new Map(PAIRS.map(([english, chinese]) => [squeeze(english), joined(chinese)]));
/** What was to be said and has no Chinese, for tests to find. */
export const missing = new Set();

/** Text in the language of the page: English with {0}, {1}, … where values go. */
export function say(english, ...values) {
  let text = english;
  if (language === "zh") {
    text = chinese.get(squeeze(english)) ?? english;
    if (!chinese.has(squeeze(english))) missing.add(squeeze(english));
  }
  return text.replace(/\{(\d+)\}/g, (_, index) => values[index]);
}

// Whatever is drawn is said anew with every frame: each place in the code is looked up once.
const places = new WeakMap();

/** The same for a template. */
export function t(strings, ...values) {
  let parts = places.get(strings);
  if (!parts) {
    const english = strings.reduce((text, part, index) => `${text}{${index - 1}}${part}`);
    parts = say(english, ...values.map((_, index) => `\0${index}\0`)).split("\0");
    places.set(strings, parts);
  }
  return parts.map((part, index) => (index % 2 ? values[part] : part)).join("");
}

/** Things one after the other. */
export const listed = (items) => items.join(t`, `);
