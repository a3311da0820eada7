//! Position encodings against their formulas: each in a small network, computed once more straight from its definition.

mod adding;
mod dropout;
mod equality;
mod errors;
mod formula;
mod linear;
mod naive;
mod net;
mod order;
mod properties;
