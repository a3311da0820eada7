// The parts in the order in which they teach.
import biases from "./biases.js";
import clocks from "./clocks.js";
import codes from "./codes.js";
import comparison from "./comparison.js";
import complex from "./complex.js";
import decay from "./decay.js";
import extension from "./extension.js";
import inspect from "./inspect.js";
import linear from "./linear.js";
import model from "./model.js";
import order from "./order.js";
import pairing from "./pairing.js";
import precision from "./precision.js";
import receptive from "./receptive.js";
import similarity from "./similarity.js";
import terms from "./terms.js";
import tokens from "./tokens.js";
import turning from "./turning.js";

export const parts = [
  order,
  codes,
  terms,
  complex,
  tokens,
  turning,
  clocks,
  pairing,
  decay,
  similarity,
  biases,
  linear,
  receptive,
  extension,
  precision,
  inspect,
  model,
  comparison,
];
