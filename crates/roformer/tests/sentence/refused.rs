//! What a folder of sentence-transformers may not say, and what may not be asked of one.
