//! RoFormer: attention, position encodings, models. Stands on [`rope`].

pub use rope;
