//! Attention over queries, keys and values that already carry their positions.

pub mod softmax;
