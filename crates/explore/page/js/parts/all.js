// The parts in the order in which they teach.
import clocks from "./clocks.js";
import comparison from "./comparison.js";
import model from "./model.js";
import pairing from "./pairing.js";
import precision from "./precision.js";
import tokens from "./tokens.js";
import turning from "./turning.js";

export const parts = [
  tokens,
  turning,
  clocks,
  pairing,
  precision,
  model,
  comparison,
];
