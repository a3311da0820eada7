// The parts in the order in which they teach.
import tokens from "./tokens.js";

export const parts = [tokens];
