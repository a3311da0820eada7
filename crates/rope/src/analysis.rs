//! What a set of frequencies does: decay, wavelengths, scores against distance.
