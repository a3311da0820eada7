// The parts in the order in which they teach.
import comparison from "./comparison.js";
import model from "./model.js";
import tokens from "./tokens.js";

export const parts = [
  tokens,
  model,
  comparison,
];
