//! The arguments of the kernels, as the structs of `kernels/` have them. Addresses are 0 where there is nothing.

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Embed {
    pub words: u64,
    pub kinds: u64,
    pub ids: u64,
    pub types: u64,
    pub out: u64,
    pub chunks: u64,
    pub row: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Norm {
    pub x: u64,
    pub residual: u64,
    pub weight: u64,
    pub bias: u64,
    pub sum: u64,
    pub out: u64,
    pub vectors: u64,
    pub step: u64,
    pub offset: u64,
    pub heads: u32,
    pub width: u32,
    pub epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub from: u64,
    pub to: u64,
    pub from_token: u64,
    pub from_sequence: u64,
    pub to_token: u64,
    pub to_sequence: u64,
    pub chunks: u64,
    pub tokens: u32,
    pub width: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Finish {
    pub x: u64,
    pub bias: u64,
    pub chunks: u64,
    pub row: u32,
    pub activation: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Gate {
    pub x: u64,
    pub out: u64,
    pub chunks: u64,
    pub row: u32,
    pub activation: u32,
}

/// Vectors and mask of an attention: the first members of its kernel's struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Vectors {
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub out: u64,
    /// From token to token and from sequence to sequence: of queries, keys and values.
    pub steps: [[u64; 2]; 3],
    pub mask: u64,
    pub prefixes: u64,
}

/// Sizes of an attention, members of its kernel's struct as they stand.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub key_heads: u32,
    pub head_dim: u32,
    pub words: u32,
    pub reach: u32,
    /// 0: none.
    pub window: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Attend {
    pub vectors: Vectors,
    pub sizes: Sizes,
    pub blocks: u32,
    pub scale: f32,
}

const _: () = assert!(size_of::<Embed>() == 56 && size_of::<Norm>() == 88 && size_of::<Copy>() == 64);
const _: () = assert!(size_of::<Finish>() == 32 && size_of::<Gate>() == 32 && size_of::<Attend>() == 136);
