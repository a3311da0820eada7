// Questions to the server, in the reader's language: numbers are the same in both, refusals and verdicts are not. A page that was
// exported has no server: it looks answers up in files.
import { language, t } from "./words.js";

const folder = document.querySelector('meta[name="answers"]')?.content;

/** In an exported page the numbers that controls can be at, by parts and names; else nothing. */
export const stops = folder ? await file("stops") : null;

/** A question that an exported page has no answer to. */
export class Unanswered extends Error {}

/** The server's answer, or its refusal as an error. */
export async function ask(route, query, options) {
  if (!route) return {};
  if (stops) return stored(route, query, options);
  let response;
  try {
    response = await fetch(`api/${route}?${new URLSearchParams(query)}`, { ...options, headers: { "Accept-Language": language } });
  } catch {
    throw new Error(t`The program that serves this page does not answer. Is it still running?`);
  }
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.error ?? t`The server answered ${response.status}.`);
  return data;
}

async function file(name) {
  return (await fetch(`${folder}${name}.json`)).json();
}

const files = {};

/** The answer from the files. */
async function stored(route, query = {}, { body } = {}) {
  const asked = { ...query };
  // A configuration is one of the examples, or needs the program; its verdict is in words.
  if (body) Object.assign(asked, { lang: language, example: (await stored("examples")).find(({ text }) => text === body)?.key });
  const key = Object.keys(asked).sort().map((name) => `${name}=${asked[name]}`).join("&");
  const answers = Object.hasOwn(stops, route) ? await (files[route] ??= file(route)) : {};
  if (Object.hasOwn(answers, key)) return structuredClone(answers[key]);
  if (body && !asked.example) throw new Unanswered(t`A configuration of your own needs the program: roformer explore.`);
  throw new Unanswered(t`This copy of the page has no answer for these settings. The program computes any: roformer explore.`);
}
