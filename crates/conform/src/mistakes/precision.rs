//! Bits that are lost before the cosine is taken, or just after.

use super::Mistake;
use crate::case::Meaning;
use crate::dtype::Dtype;
use crate::plan::{Format, Narrow, Plan};

const BF16: Format = Format::Is(Dtype::Bf16);
const F16: Format = Format::Is(Dtype::F16);
const NONE: Narrow = Narrow { position: None, frequency: None, angle: None, table: None };

const CURE: &str = "form positions, frequencies and angles in float32 or better, outside of autocast; cast cosines and sines last";

const fn rounding(
    name: &'static str,
    does: &'static str,
    cure: &'static str,
    apply: fn(&Meaning, &mut Plan) -> bool,
) -> Mistake {
    Mistake { name, does, cure, is_rounding: true, apply }
}

pub(super) const MISTAKES: &[Mistake] = &[
    rounding(
        "position-bf16",
        "holds positions in bfloat16, which cannot tell 256 from 257",
        CURE,
        |_, plan| narrow(plan, Narrow { position: Some(BF16), ..NONE }),
    ),
    rounding(
        "position-f16",
        "holds positions in float16, which cannot tell 2048 from 2049",
        CURE,
        |_, plan| narrow(plan, Narrow { position: Some(F16), ..NONE }),
    ),
    rounding("frequency-bf16", "holds frequencies (inv_freq) in bfloat16", CURE, |_, plan| {
        narrow(plan, Narrow { frequency: Some(BF16), ..NONE })
    }),
    rounding("frequency-f16", "holds frequencies (inv_freq) in float16", CURE, |_, plan| {
        narrow(plan, Narrow { frequency: Some(F16), ..NONE })
    }),
    rounding("angle-bf16", "rounds angles to bfloat16 before their cosine is taken", CURE, |_, plan| {
        narrow(plan, Narrow { angle: Some(BF16), ..NONE })
    }),
    rounding("angle-f16", "rounds angles to float16 before their cosine is taken", CURE, |_, plan| {
        narrow(plan, Narrow { angle: Some(F16), ..NONE })
    }),
    rounding("all-bf16", "has positions, frequencies and angles in bfloat16", CURE, |_, plan| {
        narrow(plan, Narrow { position: Some(BF16), frequency: Some(BF16), angle: Some(BF16), table: None })
    }),
    rounding("all-f16", "has positions, frequencies and angles in float16", CURE, |_, plan| {
        narrow(plan, Narrow { position: Some(F16), frequency: Some(F16), angle: Some(F16), table: None })
    }),
    rounding(
        "angle-tf32",
        "multiplies positions by frequencies in TF32, as a product of matrices on a GPU may",
        "write the product as a broadcast multiplication, which stays in float32",
        |_, plan| {
            narrow(plan, Narrow { position: Some(Format::Tf32), frequency: Some(Format::Tf32), ..NONE })
        },
    ),
    rounding(
        "table-bf16",
        "rounds cosines and sines to bfloat16, where q and k have more bits",
        "keep the table in float32",
        |_, plan| narrow(plan, Narrow { table: Some(BF16), ..NONE }),
    ),
    rounding(
        "table-f16",
        "rounds cosines and sines to float16, where q and k have more bits",
        "keep the table in float32",
        |_, plan| narrow(plan, Narrow { table: Some(F16), ..NONE }),
    ),
];

fn narrow(plan: &mut Plan, narrow: Narrow) -> bool {
    plan.narrow = narrow;
    true
}
