//! What is known of the encodings beyond their formulas.

use super::formula::alibi_slopes;
use super::net::{NONE, error, lay, network, parameter};
use roformer::encoding::{
    Alibi, Clipped, Deberta, Encoding, Hierarchical, Pose, Randomised, Shaw, Sizes, T5, bucket, shift,
    sinusoid,
};
use roformer::graph::{Builder, Graph, Value};

fn code(position: f64, width: usize) -> Vec<f64> {
    (0..width).map(|feature| sinusoid(position, feature, width)).collect()
}

fn sizes(length: usize, heads: usize) -> Sizes {
    Sizes {
        batch: 1,
        length,
        longest: length,
        width: 8,
        codes: 8,
        heads,
        key_heads: heads,
        head_dim: 4,
        is_causal: false,
        has_biases: true,
    }
}

/// T(Δ) is the rotation by −Δ·ω: the pairs are (sine, cosine), as a clock's hand is (sine, cosine) of its angle and turns to the
/// right.
#[test]
fn a_shift_turns_sine_and_cosine_backwards() {
    let (width, position, distance) = (12, 5.0, 3.0);
    let shifted = shift(&code(position, width), distance);
    assert!(error(&shifted, &code(position + distance, width)) < 1e-12);
    let turned = |sign: f64| -> Vec<f64> {
        let turn = |(pair, x): (usize, &[f64])| {
            let (sin, cos) = (sign * distance * 10_000f64.powf(-2.0 * pair as f64 / width as f64)).sin_cos();
            [x[0] * cos - x[1] * sin, x[0] * sin + x[1] * cos]
        };
        code(position, width).chunks(2).enumerate().flat_map(turn).collect()
    };
    assert!(error(&shifted, &turned(-1.0)) < 1e-12);
    assert!(error(&shifted, &turned(1.0)) > 0.1);
}

/// Rotary embedding has the frequencies of the codes: its slow pairs see as little of a short distance.
#[test]
fn codes_and_rotations_have_the_same_frequencies() {
    let width = 64;
    let rope = rope::Rope::builder(width).build().unwrap();
    let code = code(1.0, width);
    let angles: Vec<f64> = code.chunks(2).map(|pair| pair[0].atan2(pair[1])).collect();
    assert!(error(&angles, rope.frequencies(None).inv_freq()) < 1e-12);
    assert!(angles[width / 2 - 1] < 1.4e-4);
}

#[test]
fn sinusoidal_codes_are_unique() {
    let width = 64;
    let codes: Vec<Vec<f64>> = (0..4096).map(|position| code(f64::from(position), width)).collect();
    let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    // The distance of two codes depends on that of their positions alone: one row says it all.
    let far = |distance: usize| square(&codes[0], &codes[distance]).sqrt();
    let nearest = (1..4096).min_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap();
    println!("the nearest two codes are {nearest} apart, at a distance of {:.4}", far(nearest));
    assert!(far(nearest) > 0.5);
    for (first, second) in [(5, 6), (100, 4000), (4094, 4095), (17, 17 + nearest)] {
        let got = square(&codes[first], &codes[second]).sqrt();
        assert!((got - far(second - first)).abs() < 1e-10, "{first} and {second}");
    }
    let mut bits: Vec<Vec<u64>> =
        codes.iter().map(|code| code.iter().map(|x| x.to_bits()).collect()).collect();
    bits.sort();
    bits.dedup();
    assert_eq!(bits.len(), 4096);
}

/// The codes of a text do not depend on its length: a longer text begins with those of a shorter.
#[test]
fn sinusoidal_codes_do_not_depend_on_the_length() {
    let encoding = Encoding::Sinusoidal(Default::default());
    let rows = |length: usize, longest: usize| {
        let mut builder = Builder::<f64>::default();
        let x = builder.constant(length, 8, &vec![0.0; 8 * length]);
        let sizes = Sizes { longest, ..sizes(length, 2) };
        let out = encoding.as_encode().embed(&mut builder, x, &sizes);
        let mut graph = builder.build().unwrap();
        graph.forward();
        graph.value(out).to_vec()
    };
    let long = rows(50, 90);
    assert_eq!(rows(20, 20), long[..160]);
    assert_eq!(rows(50, 90), long);
}

#[test]
fn shift_moves_codes() {
    for (position, distance) in [(0.0, 5.0), (12.0, 300.0), (1000.0, -250.0), (7.0, 0.0), (3.5, 0.25)] {
        let moved = shift(&code(position, 64), distance);
        assert!(error(&moved, &code(position + distance, 64)) < 1e-12);
    }
}

#[test]
fn t5_buckets_are_those_of_the_paper() {
    let table = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11, 11,
        11, 11,
    ];
    for (distance, &wanted) in table.iter().enumerate() {
        let distance = distance as i64;
        assert_eq!(bucket(distance, false, 32, 128), wanted, "{distance}");
        let ahead = if distance == 0 { 0 } else { wanted + 16 };
        assert_eq!(bucket(-distance, false, 32, 128), ahead, "{}", -distance);
    }
    // Powers of two are whole steps of the logarithm: 8·2^(n/2), whatever its rounding says.
    for (distance, wanted) in [(8, 8), (16, 10), (32, 12), (64, 14), (128, 15), (1 << 40, 15)] {
        assert_eq!(bucket(distance, false, 32, 128), wanted, "{distance}");
    }
    let causal =
        [(-9, 0), (0, 0), (15, 15), (16, 16), (20, 17), (31, 21), (63, 26), (127, 31), (i64::MAX, 31)];
    for (distance, wanted) in causal {
        assert_eq!(bucket(distance, true, 32, 128), wanted, "{distance}");
    }
    for is_causal in [false, true] {
        for distance in -2000..2000 {
            let wanted = super::formula::t5_bucket(distance, is_causal, 32, 128);
            assert_eq!(bucket(distance, is_causal, 32, 128) as usize, wanted, "{distance}");
        }
    }
}

/// Runs what an encoding's terms need.
fn forward(builder: Builder<f64>) -> Graph<f64> {
    let mut graph = builder.build().unwrap();
    let layout = graph.layout().clone();
    layout.initialise(1, graph.parameters_mut());
    graph.forward();
    graph
}

#[test]
fn alibi_slopes_are_those_of_the_paper() {
    let eight = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625];
    let four =
        [0.707_106_781_186_547_5, 0.353_553_390_593_273_8, 0.176_776_695_296_636_9, 0.088_388_347_648_318_4];
    for (heads, wanted) in [(8, eight.to_vec()), (12, [&eight[..], &four].concat())] {
        let mut builder = Builder::<f64>::default();
        let terms = Encoding::Alibi(Alibi).as_encode().terms(&mut builder, 0, &sizes(5, heads));
        let bias = terms.bias.unwrap();
        let graph = forward(builder);
        assert_eq!(bias.index, [4, 3, 2, 1, 0, 1, 2, 3, 4]);
        for (head, (row, slope)) in graph.value(bias.table).chunks(5).zip(&wanted).enumerate() {
            for (distance, bias) in row.iter().enumerate() {
                assert!((bias + slope * distance as f64).abs() < 1e-14, "head {head}, distance {distance}");
            }
        }
        assert!(error(&alibi_slopes(heads), &wanted) < 1e-14);
    }
}

/// A model trained with n positions keeps them.
#[test]
fn hierarchical_codes_are_the_learned_ones_at_first() {
    let encoding = Encoding::Hierarchical(Hierarchical { positions: Some(4), ..Hierarchical::default() });
    let mut builder = Builder::<f64>::default();
    let x = builder.constant(16, 8, &[0.0; 128]);
    let out: Value = encoding.as_encode().embed(&mut builder, x, &sizes(16, 2));
    let graph = forward(builder);
    let table = graph.layout().find("position.embedding.weight").unwrap().range();
    let (codes, table) = (graph.value(out), &graph.parameters()[table]);
    assert!(error(&codes[..32], table) < 1e-15);
    // All sixteen differ.
    let rows: Vec<&[f64]> = codes.chunks(8).collect();
    for (index, row) in rows.iter().enumerate() {
        assert!(rows[..index].iter().all(|other| error(other, row) > 1e-3), "row {index}");
    }
}

/// As few vectors as reach the longest text: beyond the first n positions the codes are sums of two, where a learned table has
/// rows of their own.
#[test]
fn hierarchical_codes_differ_from_learned_ones_within_the_text() {
    for (longest, n) in [(1, 1), (2, 2), (4, 2), (16, 4), (17, 5), (64, 8), (256, 16)] {
        let own = Hierarchical::default();
        assert_eq!(own.rows(longest), n, "for {longest} positions");
        let mut builder = Builder::<f64>::default();
        let x = builder.constant(longest, 8, &vec![0.0; 8 * longest]);
        let sizes = Sizes { longest, ..sizes(longest, 2) };
        let encoding = Encoding::Hierarchical(own);
        encoding.as_encode::<f64>().check(&sizes).unwrap();
        let out: Value = encoding.as_encode().embed(&mut builder, x, &sizes);
        let graph = forward(builder);
        let table = graph.layout().find("position.embedding.weight").unwrap().range();
        let (codes, table) = (graph.value(out), &graph.parameters()[table]);
        let (row, share) = (|k: usize| &table[8 * k..8 * k + 8], own.alpha / (1.0 - own.alpha));
        assert_eq!(table.len(), 8 * n);
        for (k, code) in codes.chunks(8).enumerate() {
            let (p, q, first) = (row(k % n), row(k / n), row(0));
            let wanted: Vec<f64> = (0..8).map(|i| p[i] + share * (q[i] - first[i])).collect();
            assert!(error(code, &wanted) < 1e-14, "position {k}");
        }
    }
}

#[test]
fn randomised_positions_are_fair() {
    let (range, length) = (100, 10);
    let encoding = Encoding::Randomised(Randomised { range, ..Randomised::default() });
    let draw = |seed: u64, step: u64| encoding.as_encode::<f64>().positions(length, seed, step).unwrap();
    let mut counts = vec![0usize; range];
    let steps = 20_000;
    for step in 0..steps {
        let positions = draw(7, step);
        assert_eq!(positions.len(), length);
        assert!(positions.is_sorted_by(|a, b| a < b) && positions[length - 1] < range as u32);
        positions.iter().for_each(|&position| counts[position as usize] += 1);
        if step < 200 {
            assert_eq!(positions, draw(7, step));
            assert_ne!(positions, draw(7, step + 1));
            assert_ne!(positions, draw(8, step));
        }
    }
    // Each number is drawn in a tenth of the steps, with a standard deviation of √(n·p·(1−p)), 42 here.
    let mean = steps as f64 * length as f64 / range as f64;
    for (position, &count) in counts.iter().enumerate() {
        assert!((count as f64 - mean).abs() < 5.0 * 42.5, "{position} was drawn {count} times");
    }
    // A range as long as the text leaves no choice.
    let all = Encoding::Randomised(Randomised { range: 10, ..Randomised::default() });
    assert_eq!(all.as_encode::<f64>().positions(10, 1, 1).unwrap(), (0..10).collect::<Vec<u32>>());
}

/// Pieces keep their neighbours, later pieces stand further on, and the whole range is met.
/// CoPE as its authors released it for Llama 3: the slowest 20 of 64 pairs are multiplied by half a cosine over their numbers, from 1 at the
/// first of them to 0 at the last. Wavelengths grow in equal ratios, so that this is half a cosine in their logarithm.
#[test]
fn clipped_is_the_released_one() {
    let (base, dim, clipped) = (500_000f64, 128, 20);
    let theta: Vec<f64> = (0..dim / 2).map(|j| base.powf(-2.0 * j as f64 / dim as f64)).collect();
    let first = theta.len() - clipped;
    let period = std::f64::consts::TAU / theta[first];
    let rope = Clipped { base, period, width: None }.rope(dim).unwrap();
    for (j, (&got, theta)) in rope.frequencies(None).inv_freq().iter().zip(&theta).enumerate() {
        let along = j.saturating_sub(first) as f64 / (clipped - 1) as f64;
        let wanted = theta * 0.5 * (1.0 + (std::f64::consts::PI * along).cos());
        assert!((got - wanted).abs() <= 1e-14 * theta, "pair {j}: {got}, not {wanted}");
    }
}

#[test]
fn skips_keep_neighbours_and_reach_far() {
    let (range, length) = (100usize, 10);
    let encoding = Encoding::Pose(Pose { range, pieces: 3, ..Pose::default() });
    let draw = |length: usize, step: u64| encoding.as_encode::<f64>().positions(length, 7, step).unwrap();
    let (mut furthest, mut skips, mut cuts) = (0, 0, vec![0; length]);
    for step in 0..5000 {
        let positions = draw(length, step);
        assert_eq!(positions, draw(length, step), "the same for the same step");
        assert!(positions[0] == 0 && positions.is_sorted_by(|a, b| a < b));
        assert!((positions[length - 1] as usize) < range);
        let jumps: Vec<usize> =
            (1..length).filter(|&token| positions[token] != positions[token - 1] + 1).collect();
        assert!(jumps.len() <= 2, "{positions:?}");
        jumps.iter().for_each(|&token| cuts[token] += 1);
        skips += jumps.len();
        furthest = furthest.max(positions[length - 1]);
    }
    assert!(furthest > 95 && skips > 9000, "{furthest} {skips}");
    // Every place is cut about as often: two of nine, of 5,000 steps.
    assert!(cuts[1..].iter().all(|&count| (900..1300).contains(&count)), "{cuts:?}");
    // Texts shorter than there are pieces, and one as long as the range, have no choice.
    assert_eq!(draw(1, 3), [0]);
    assert_eq!(draw(range, 3), (0..range as u32).collect::<Vec<u32>>());
    // Where a model is tested, positions are those of the tokens.
    assert_eq!(encoding.positions_of_tests(10, 7, 3), None);
}

/// Distances beyond the bounds share the row of the bound.
#[test]
fn far_distances_share_their_rows() {
    let length = 300;
    let at = |index: &[u32], distance: i64| index[(distance + length as i64 - 1) as usize];
    let shaw = Encoding::Shaw(Shaw { left: 4, right: 6, ..Shaw::default() });
    let terms = shaw.as_encode().terms(&mut Builder::<f64>::default(), 0, &sizes(length, 2));
    // The index is by i − j; left is where j < i.
    for index in [&terms.query.unwrap().index, &terms.value.unwrap().index] {
        assert!((4..300).all(|distance| at(index, distance) == 0) && at(index, 3) == 1);
        assert!((-299..=-6).all(|distance| at(index, distance) == 10) && at(index, -5) == 9);
    }
    let t5 = Encoding::T5(T5::default());
    let index =
        t5.as_encode().terms(&mut Builder::<f64>::default(), 0, &sizes(length, 2)).bias.unwrap().index;
    assert!((128..300).all(|distance| at(&index, distance) == 15 && at(&index, -distance) == 31));
    let deberta = Encoding::Deberta(Deberta { reach: 8, ..Deberta::default() });
    let terms = deberta.as_encode().terms(&mut Builder::<f64>::default(), 0, &sizes(length, 2));
    let (query, key) = (terms.query.unwrap().index, terms.key.unwrap().index);
    assert!((7..300).all(|distance| at(&query, distance) == 15 && at(&key, -distance) == 15));
    assert!((8..300).all(|distance| at(&query, -distance) == 0 && at(&key, distance) == 0));
}

/// Models with different encodings start with the same words and weights: comparisons compare encodings alone.
#[test]
fn shared_parameters_begin_the_same() {
    let first = |encoding: Encoding| {
        let mut laid = lay(&network(encoding, true), 1, 5, 5);
        let layout = laid.graph.layout().clone();
        layout.initialise(3, laid.graph.parameters_mut());
        ["embed.weight", "blocks.layers.0.self_attn.in_proj_weight", "out.weight"]
            .map(|name| parameter(&laid, name).to_vec())
    };
    let plain = first(NONE);
    Encoding::all().into_iter().for_each(|encoding| assert!(first(encoding) == plain));
}
