//! The learning rate of each step.

/// How the learning rate falls after it has risen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Half a cosine, from the highest rate to the lowest.
    #[default]
    Cosine,
    /// A straight line.
    Linear,
    /// With 1/√step, never below the lowest rate.
    InverseSqrt,
    /// It does not fall.
    Constant,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Schedule; 4] =
        [Schedule::Cosine, Schedule::Linear, Schedule::InverseSqrt, Schedule::Constant];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Cosine => "cosine",
            Schedule::Linear => "linear",
            Schedule::InverseSqrt => "inverse-sqrt",
            Schedule::Constant => "constant",
        }
    }

    /// The rate of step 1, 2, … of `steps`: it rises in a straight line to `highest`, which it has at step `warmup`, and
    /// then falls, to `lowest` at the last step where the schedule says so.
    pub fn rate(self, step: u64, [warmup, steps]: [u64; 2], [highest, lowest]: [f64; 2]) -> f64 {
        if step < warmup {
            return highest * step as f64 / warmup as f64;
        }
        let done = (step - warmup) as f64 / steps.saturating_sub(warmup).max(1) as f64;
        let done = done.min(1.0);
        match self {
            Schedule::Cosine => {
                lowest + (highest - lowest) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
            Schedule::Linear => lowest + (highest - lowest) * (1.0 - done),
            Schedule::InverseSqrt => {
                (highest * (warmup.max(1) as f64 / step.max(1) as f64).sqrt()).max(lowest)
            }
            Schedule::Constant => highest,
        }
    }
}
