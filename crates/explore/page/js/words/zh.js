// Chinese, part by part.
import biases from "./zh/biases.js";
import clocks from "./zh/clocks.js";
import codes from "./zh/codes.js";
import comparison from "./zh/comparison.js";
import complex from "./zh/complex.js";
import decay from "./zh/decay.js";
import extension from "./zh/extension.js";
import inspect from "./zh/inspect.js";
import linear from "./zh/linear.js";
import model from "./zh/model.js";
import order from "./zh/order.js";
import page from "./zh/page.js";
import pairing from "./zh/pairing.js";
import precision from "./zh/precision.js";
import receptive from "./zh/receptive.js";
import similarity from "./zh/similarity.js";
import terms from "./zh/terms.js";
import tokens from "./zh/tokens.js";
import tour from "./zh/tour.js";
import turning from "./zh/turning.js";

/** [English, Chinese], the English once. */
export const PAIRS = [...biases, ...clocks, ...codes, ...comparison, ...complex, ...decay, ...extension, ...inspect, ...linear, ...model, ...order, ...page, ...pairing, ...precision, ...receptive, ...similarity, ...terms, ...tokens, ...tour, ...turning];
