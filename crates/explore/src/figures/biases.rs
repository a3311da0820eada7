//! What encodings do to the scores: biases that are added, and rotary embedding, which multiplies.
//!
//! Tables come from the encodings as models have them ([`Encode::terms`]); what a model would have learned is made up here.

use super::check::{self, within};
use crate::error::Result;
use roformer::encoding::{Alibi, Encode, Kerple, Shaw, ShawTables, Sizes, T5, Terms, bucket};
use roformer::graph::{Builder, Graph, TableTerm};
use rope::{Pairing, analysis};
use serde::{Deserialize, Serialize};

/// Which head, how long a text, and which query and key are looked at.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Tokens.
    pub length: usize,
    /// Which of eight heads, from 1 on.
    pub head: usize,
    /// Shaw's clip bound: distances beyond it count as it.
    pub reach: usize,
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// Where the query stands.
    pub m: usize,
    /// Where the key stands.
    pub n: usize,
    /// Which query and key.
    pub seed: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { length: 64, head: 3, reach: 12, dim: 128, base: 10_000.0, m: 40, n: 16, seed: 2 }
    }
}

/// What one encoding does to the score of every pair of tokens: it depends on the distance alone.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// The encoding: `t5`, `alibi`, `kerple`, `shaw`, `alike` or `random` (both rotary).
    pub name: &'static str,
    /// `[2 · length − 1]`: for the distances m − n from −(length − 1) on.
    pub values: Vec<f64>,
    /// At the query and the key that are looked at.
    pub here: f64,
    /// With the two exchanged.
    pub exchanged: f64,
    /// With the key [`FURTHER`] tokens further away.
    pub further: f64,
}

/// All encodings side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Biases {
    /// m − n.
    pub distance: i64,
    /// ALiBi's slope of this head.
    pub slope: f64,
    /// T5's bucket of the distance.
    pub bucket: u32,
    /// KERPLE's r₁ and r₂.
    pub kernel: [f64; 2],
    /// The distance at which Shaw looks: m − n, clipped.
    pub clipped: i64,
    /// One for each encoding.
    pub maps: Vec<Map>,
}

/// How much further away the third number of a map is.
pub const FURTHER: i64 = 10;
/// Heads of the model that the head belongs to.
pub const HEADS: usize = 8;

/// What each encoding does to the scores.
pub fn biases(ask: &Ask) -> Result<Biases> {
    let length = within("length", ask.length, 8..=128)?;
    let head = within("head", ask.head, 1..=HEADS)? - 1;
    let reach = within("reach", ask.reach, 1..=32)?;
    let (m, n) = (within("m", ask.m, 0..=length - 1)?, within("n", ask.n, 0..=length - 1)?);
    let (m, n) = (m as i64, n as i64);
    let rope = check::rope(ask.dim, ask.base)?;
    let frequencies = rope.frequencies(None);
    let theta = frequencies.inv_freq();
    let longest = length + FURTHER as usize;
    let sizes = Sizes {
        batch: 1,
        length: longest,
        longest,
        width: HEADS * ask.dim,
        codes: HEADS * ask.dim,
        heads: HEADS,
        key_heads: HEADS,
        head_dim: ask.dim,
        is_causal: false,
        has_biases: true,
    };
    let seed = |which: u64| ask.seed.wrapping_mul(2).wrapping_add(which);
    let (q, k) = (check::normal(seed(0), ask.dim), check::normal(seed(1), ask.dim));
    let root = (ask.dim as f64).sqrt();

    let (t5, kerple) = (T5::default(), Kerple::default());
    let shaw = Shaw { left: reach, right: reach, tables: ShawTables::Sinusoidal, values: false };
    let t5_bias = Laid::new(&t5, &sizes, Some(t5_numbers(t5.buckets)))?;
    let alibi_bias = Laid::new(&Alibi, &sizes, None)?;
    let kerple_bias = Laid::new(&kerple, &sizes, None)?;
    let shaw_rows = Laid::new(&shaw, &sizes, None)?;
    let by_head = |laid: &Laid, distance: i64| {
        laid.bias(|term| &term.bias, distance).map_or(0.0, |(table, row, rows)| table[head * rows + row])
    };
    let with_query = |distance: i64| {
        shaw_rows.bias(|term| &term.query, distance).map_or(0.0, |(table, row, _)| {
            let row = &table[row * ask.dim..][..ask.dim];
            q.iter().zip(row).map(|(q, row)| q * row).sum::<f64>() / root
        })
    };
    let alike = |distance: i64| analysis::cosine_sum(theta, distance as f64) / theta.len() as f64;
    let random = |distance: i64| -> f64 {
        analysis::score(&q, &k, theta, distance as f64, Pairing::Interleaved).expect("two features per pair")
            / root
    };
    let map = |name: &'static str, value: &dyn Fn(i64) -> f64| {
        let (distance, last) = (m - n, length as i64 - 1);
        let away = if distance < 0 { -FURTHER } else { FURTHER };
        Map {
            name,
            values: (-last..=last).map(value).collect(),
            here: value(distance),
            exchanged: value(-distance),
            further: value(distance + away),
        }
    };
    Ok(Biases {
        distance: m - n,
        slope: -by_head(&alibi_bias, 1),
        bucket: bucket(m - n, false, t5.buckets, t5.furthest),
        kernel: [kerple.strength, kerple.rate],
        clipped: (m - n).clamp(-(reach as i64), reach as i64),
        maps: vec![
            map("t5", &|distance| by_head(&t5_bias, distance)),
            map("alibi", &|distance| by_head(&alibi_bias, distance)),
            map("kerple", &|distance| by_head(&kerple_bias, distance)),
            map("shaw", &with_query),
            map("alike", &alike),
            map("random", &random),
        ],
    })
}

/// An encoding's terms of one layer, with numbers in its tables.
struct Laid {
    graph: Graph<f64>,
    terms: Terms,
    length: i64,
}

impl Laid {
    /// With the encoding's first numbers, or with these as if they had been learned.
    fn new(encode: &dyn Encode<f64>, sizes: &Sizes, learned: Option<Vec<f64>>) -> Result<Laid> {
        encode.check(sizes)?;
        let mut builder = Builder::default();
        let terms = encode.terms(&mut builder, 0, sizes);
        let mut graph = builder.build()?;
        graph.layout().clone().initialise(0, graph.parameters_mut());
        if let Some(numbers) = learned {
            graph.parameters_mut().copy_from_slice(&numbers);
        }
        graph.forward();
        Ok(Laid { graph, terms, length: sizes.length as i64 })
    }

    /// A term's table, the row of a distance, and how many numbers a row of the table has.
    fn bias(
        &self,
        term: impl Fn(&Terms) -> &Option<TableTerm>,
        distance: i64,
    ) -> Option<(&[f64], usize, usize)> {
        let term = term(&self.terms).as_ref()?;
        let row = *term.index.get((distance + self.length - 1) as usize)?;
        Some((self.graph.value(term.table), row as usize, term.table.width))
    }
}

/// `[HEADS, buckets]` numbers such as a model might have learned: less for further buckets, by more in later heads, less for keys
/// ahead of the query, and some chance.
fn t5_numbers(buckets: usize) -> Vec<f64> {
    let chance = check::normal(5, HEADS * buckets);
    let number = |place: usize| {
        let (head, bucket) = (place / buckets, place % buckets);
        let (row, is_ahead) = (bucket % (buckets / 2), bucket >= buckets / 2);
        let fall = 0.1 + 0.03 * head as f64;
        1.5 - fall * row as f64 - if is_ahead { 0.8 } else { 0.0 } + 0.25 * chance[place]
    };
    (0..HEADS * buckets).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<'a>(biases: &'a Biases, name: &str) -> &'a Map {
        biases.maps.iter().find(|map| map.name == name).unwrap()
    }

    #[test]
    fn every_map_is_its_formula() {
        let ask = Ask::default();
        let shown = biases(&ask).unwrap();
        let last = ask.length as i64 - 1;
        assert_eq!(shown.slope, 0.125);
        for (place, distance) in (-last..=last).enumerate() {
            let away = distance.unsigned_abs() as f64;
            assert_eq!(map(&shown, "alibi").values[place], -0.125 * away);
            let kerple = -(1.0 + 0.5 * away).ln();
            assert!((map(&shown, "kerple").values[place] - kerple).abs() < 1e-12);
            // One number for each bucket.
            let numbers = t5_numbers(32);
            let row = bucket(distance, false, 32, 128) as usize;
            assert_eq!(map(&shown, "t5").values[place], numbers[2 * 32 + row]);
            let alike = map(&shown, "alike").values[place];
            let wanted: f64 = (0..64).map(|j| (away * 1e4f64.powf(-f64::from(j) / 64.0)).cos()).sum();
            assert!((alike - wanted / 64.0).abs() < 1e-12);
        }
        assert_eq!((shown.distance, shown.clipped, shown.bucket), (24, 12, bucket(24, false, 32, 128)));
    }

    #[test]
    fn what_each_of_them_keeps() {
        let shown = biases(&Ask::default()).unwrap();
        // Before and after are one to ALiBi, KERPLE and rotary embedding with vectors that are alike.
        for (name, is_told) in [
            ("t5", true),
            ("alibi", false),
            ("kerple", false),
            ("shaw", true),
            ("alike", false),
            ("random", true),
        ] {
            let map = map(&shown, name);
            assert_eq!((map.here - map.exchanged).abs() > 1e-3, is_told, "{name}");
        }
        // Beyond Shaw's bound nothing changes; everything else goes on.
        for (name, is_same) in [
            ("t5", false),
            ("alibi", false),
            ("kerple", false),
            ("shaw", true),
            ("alike", false),
            ("random", false),
        ] {
            let map = map(&shown, name);
            assert_eq!(map.here == map.further, is_same, "{name}");
        }
        // T5's far buckets are wide: 46 and 56 are in one.
        let far = biases(&Ask { m: 46, n: 0, ..Ask::default() }).unwrap();
        assert_eq!(map(&far, "t5").here, map(&far, "t5").further);
    }

    #[test]
    fn hostile_questions_are_refused() {
        let refused = |ask: Ask| biases(&ask).unwrap_err().to_string();
        assert!(refused(Ask { length: 1 << 40, ..Ask::default() }).contains("length"));
        assert!(refused(Ask { head: 0, ..Ask::default() }).contains("head is 0"));
        assert!(refused(Ask { head: 9, ..Ask::default() }).contains("head is 9"));
        assert!(refused(Ask { reach: 0, ..Ask::default() }).contains("reach is 0"));
        assert!(refused(Ask { dim: 5, ..Ask::default() }).contains('5'));
        assert!(refused(Ask { base: f64::NAN, ..Ask::default() }).contains("base is NaN"));
        assert!(refused(Ask { n: 64, ..Ask::default() }).contains("n is 64"));
        let most = Ask { length: 128, dim: 512, reach: 32, m: 0, n: 127, seed: u64::MAX, ..Ask::default() };
        assert!(
            biases(&most).unwrap().maps.iter().flat_map(|map| &map.values).all(|value| value.is_finite())
        );
    }
}
