//! Shaw et al. (2018): a vector for each distance between two clip bounds, added to keys and to values: scores
//! q_i·(k_j + R^K_(j−i))/√d, outputs Σ a_ij·(v_j + R^V_(j−i)). All heads share them.

use super::sinusoidal::sinusoid;
use super::{Encode, Sizes, Terms, by_distance, check_rows};
use crate::error::Result;
use crate::graph::{Builder, Init, TableTerm};
use crate::ops::Real;

/// Where Shaw's vectors come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShawTables {
    /// They are learned, in every layer its own.
    #[default]
    Learned,
    /// They are sines and cosines of the distance, as in NEZHA.
    Sinusoidal,
}

/// Shaw's vectors for clipped distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaw {
    /// Keys further to the left than this are treated as if they stood there.
    pub left: usize,
    /// The same to the right.
    pub right: usize,
    /// Where the vectors come from.
    pub tables: ShawTables,
    /// Whether values get vectors too.
    pub values: bool,
}

impl Default for Shaw {
    fn default() -> Self {
        Shaw { left: 16, right: 16, tables: ShawTables::Learned, values: true }
    }
}

impl<T: Real> Encode<T> for Shaw {
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        check_rows("the left clip bound", self.left)?;
        check_rows("the right clip bound", self.right)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let (rows, dim) = (self.left + self.right + 1, sizes.head_dim);
        let mut table = |part: &str| match self.tables {
            ShawTables::Learned => {
                let name = format!("position.shaw.{layer}.{part}.weight");
                let table = builder.parameters().add(name, &[rows, dim], Init::Normal(0.02));
                builder.lift(table, rows, dim)
            }
            ShawTables::Sinusoidal => {
                let distance = |row: usize| row as f64 - self.left as f64;
                let codes: Vec<f64> = (0..rows)
                    .flat_map(|row| (0..dim).map(move |i| sinusoid(distance(row), i, dim)))
                    .collect();
                builder.constant(rows, dim, &codes)
            }
        };
        // j − i, the distance to the key, from −left to right.
        let index = by_distance(sizes.length, |distance| {
            ((-distance).clamp(-(self.left as i64), self.right as i64) + self.left as i64) as u32
        });
        let query = TableTerm { table: table("key"), index: index.clone() };
        let value = self.values.then(|| TableTerm { table: table("value"), index });
        Terms { query: Some(query), value, ..Terms::default() }
    }
}
