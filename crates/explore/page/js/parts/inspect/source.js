// Where a configuration comes from: a file, the clipboard, the address, an example, or the command that serves the page.
import { ask } from "../../ask.js";
import { state } from "../../state.js";
import { t } from "../../words.js";

/** More bytes than a config.json has. */
export const LARGEST = 16 * 1024 * 1024;
/** More characters than an address should have. */
const LONGEST = 16 * 1024;

// The address holds the text of a configuration, packed, and its name; or which of the examples is shown.
for (const key of ["config", "name", "example", "layer"]) state.declare(`inspect.${key}`, "");
export const KEYS = ["inspect.config", "inspect.example", "inspect.layer"];

/** What the server brings: examples, and the configuration that it was started with, if any. */
let brought = null;
export const bring = () => (brought ??= Promise.all([ask("examples"), ask("given")]).then(([examples, given]) => ({ examples, given })));

let held = null; // { name, text, key }: what was taken last, and what the address says then

/** The configuration to show: { name, text, isInAddress }. */
export async function current() {
  const packed = state.get("inspect.config");
  if (packed && held?.key !== packed) held = { name: state.get("inspect.name") || "config.json", text: await unpack(packed), key: packed };
  if (held && held.key === packed && !state.get("inspect.example")) return { name: held.name, text: held.text, isInAddress: packed !== "" };
  const { examples, given } = await bring();
  const wanted = examples.find(({ key }) => key === state.get("inspect.example"));
  return { ...(wanted ?? given ?? examples[0]), isInAddress: true };
}

/** Shows another configuration, which has been read once without complaint. */
export async function hold(name, text) {
  const packed = await pack(text);
  const isLong = packed.length > LONGEST;
  held = { name, text, key: isLong ? "" : packed };
  state.set({ "inspect.config": held.key, "inspect.name": isLong ? "" : name, "inspect.example": "", "inspect.layer": "" });
}

export function showExample(key) {
  held = null;
  state.set({ "inspect.config": "", "inspect.name": "", "inspect.example": key, "inspect.layer": "" });
}

/** The text of a file, or an error that says why there is none. */
export async function textOf(file) {
  if (file.size > LARGEST) throw new Error(t`${file.name} has ${file.size} bytes; a config.json has at most ${LARGEST}. It was not read.`);
  let bytes;
  try {
    bytes = await file.arrayBuffer();
  } catch {
    throw new Error(t`${file.name} cannot be read. Is it a folder? Drop the config.json inside it.`);
  }
  if (bytes.byteLength === 0) throw new Error(t`${file.name} is empty; expected a Hugging Face config.json.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(t`${file.name} is not a text; expected a Hugging Face config.json.`);
  }
}

/** The one file of a drop, or an error. */
export function fileOf(transfer) {
  const entries = [...(transfer.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const folder = entries.find((entry) => entry.isDirectory);
  if (folder) throw new Error(t`${folder.name} is a folder; drop the config.json inside it.`);
  const files = [...transfer.files];
  const file = files.length > 1 ? files.find(({ name }) => name === "config.json") : files[0];
  if (!file && files.length > 1) throw new Error(t`These are ${files.length} files, none of them called config.json; drop one.`);
  return file;
}

/** A text for the address: deflated, in the 64 characters that need no escape there. */
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let letters = "";
  for (let start = 0; start < bytes.length; start += 4096) letters += String.fromCharCode(...bytes.subarray(start, start + 4096));
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The text again. A small address can hold a huge text, so it is counted while it is inflated. */
async function unpack(packed) {
  const broken = (why) => new Error(t`The configuration in the address cannot be read: ${why}.`);
  let bytes;
  try {
    bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    throw broken(t`it has characters that do not belong there`);
  }
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const chunks = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw broken(t`it is cut off or damaged`);
    });
    if (done) break;
    size += value.length;
    if (size > LARGEST) {
      reader.cancel().catch(() => {});
      throw broken(t`it has more than ${LARGEST} bytes`);
    }
    chunks.push(value);
  }
  return new Blob(chunks).text();
}
