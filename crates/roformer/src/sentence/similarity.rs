//! How near two vectors are.

/// The functions that vectors are compared with. A larger number is nearer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// The cosine of the angle between them.
    #[default]
    Cosine,
    /// Their product.
    Dot,
    /// The distance between them, negative.
    Euclidean,
    /// The sum of the distances of their numbers, negative.
    Manhattan,
}

impl Similarity {
    /// All of them.
    pub const ALL: [Similarity; 4] =
        [Similarity::Cosine, Similarity::Dot, Similarity::Euclidean, Similarity::Manhattan];

    /// What files call it.
    pub fn name(self) -> &'static str {
        match self {
            Similarity::Cosine => "cosine",
            Similarity::Dot => "dot",
            Similarity::Euclidean => "euclidean",
            Similarity::Manhattan => "manhattan",
        }
    }

    /// How near two vectors of the same length are, computed in f64.
    pub fn of(self, a: &[f32], b: &[f32]) -> f32 {
        let sum = |term: fn(f64, f64) -> f64| {
            a.iter().zip(b).map(|(&a, &b)| term(f64::from(a), f64::from(b))).sum::<f64>()
        };
        match self {
            Similarity::Cosine => cosine(a, b),
            Similarity::Dot => sum(|a, b| a * b) as f32,
            Similarity::Euclidean => -sum(|a, b| (a - b).powi(2)).sqrt() as f32,
            Similarity::Manhattan => -sum(|a, b| (a - b).abs()) as f32,
        }
    }
}

/// The cosine of the angle between two vectors; 0 where one of them is 0.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { (dot(a, b) / lengths) as f32 } else { 0.0 }
}
