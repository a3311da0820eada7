//! Every encoding in a network, against its formula.

use super::net::{NONE, batch, error, hidden, lay, network};
use super::{naive, net};
use roformer::encoding::{
    Alibi, Deberta, Encoding, Fope, Hierarchical, Kerple, Learned, Merge, Randomised, ReceptiveField, Rotary,
    Shaw, ShawTables, Sinusoidal, T5, XlNet, Xpos,
};
use roformer::graph::Batch;
use roformer::network::{LinearForm, Mixing, Network};
use rope::{Llama3, Pairing, Schedule, Yarn};

/// Masked tokens in the middle and at the end; the first stays, or a causal query would see nothing.
fn mask(length: usize) -> Vec<bool> {
    let first = (0..length).map(|index| index != 3);
    first.chain((0..length).map(|index| index + 2 < length)).collect()
}

/// The network at lengths below and beyond a tile, with and without padding.
fn check(network: &Network, longest: usize, positions: impl Fn(usize) -> Vec<u32>) {
    let mut worst = 0f64;
    for length in [7, 70] {
        let mut laid = lay(network, 2, length, longest.max(length));
        for mask in [Vec::new(), mask(length)] {
            let batch = Batch { mask, positions: positions(length), ..batch(network, 2 * length, 9) };
            let got = hidden(&mut laid, &batch);
            let wanted = naive::hidden(&laid, network, &batch, length);
            let error = error(&got, &wanted);
            let is_padded = !batch.mask.is_empty();
            assert!(error <= 1e-10, "length {length}, padded {is_padded}: {error:.1e} in {network:?}");
            worst = worst.max(error);
        }
    }
    println!("{}: within {worst:.1e}", network.blueprint.encoding.name());
}

/// With a causal mask and without, with heads that are a power of two and heads that are not, and with grouped ones.
fn check_all(encoding: &Encoding, longest: usize) {
    for is_causal in [false, true].into_iter().filter(|&causal| causal || !encoding.is_causal_only()) {
        let three = network(encoding.clone(), is_causal);
        check(&three, longest, |_| Vec::new());
        let grouped = three.with(|own| {
            own.heads = 4;
            own.key_heads = 2;
            // Rows and columns share pairs evenly.
            own.head_dim = if encoding.side().is_some() { 4 } else { 6 };
        });
        check(&grouped, longest, |_| Vec::new());
    }
}

#[test]
fn no_encoding_is_plain_attention() {
    check_all(&NONE, 70);
}

#[test]
fn absolute_codes_are_their_formulas() {
    for merge in [Merge::Add, Merge::Concatenate] {
        check_all(&Encoding::Sinusoidal(Sinusoidal { merge }), 70);
        check_all(&Encoding::Learned(Learned { merge, ..Learned::default() }), 80);
        for (positions, alpha) in [(9, 0.4), (12, 0.7), (80, 0.3)] {
            check_all(&Encoding::Hierarchical(Hierarchical { positions: Some(positions), alpha, merge }), 70);
        }
    }
    // Four vectors reach exactly to sixteen positions.
    let encoding = Encoding::Hierarchical(Hierarchical { positions: Some(4), ..Hierarchical::default() });
    let network = network(encoding, false);
    let (mut laid, batch) = (lay(&network, 2, 16, 16), batch(&network, 32, 2));
    let got = hidden(&mut laid, &batch);
    assert!(error(&got, &naive::hidden(&laid, &network, &batch, 16)) <= 1e-10);
}

/// Digits stand by their places within numbers, in texts with long numbers, short ones and none.
#[test]
fn codes_of_digits_are_their_formulas() {
    for label in [
        "abacus",
        "abacus:digits=2-8",
        "abacus:digits=1+3+9,places=2,shift=0",
        "abacus:digits=0-10,places=30",
        "coupled:digits=2-8",
        "coupled:digits=4-6,rotary=true",
    ] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
}

/// In training numbers of a step are moved on by the same, signs with them where they are coupled; gradients know of it.
#[test]
fn numbers_are_moved_on_in_training() {
    for (label, moves_signs) in
        [("abacus:digits=2-8,places=9,shift=5", false), ("coupled:digits=2-8,places=9,shift=5", true)]
    {
        let network = network(Encoding::parse(label).unwrap(), true);
        let mut laid = lay(&network, 1, 6, 6);
        let name = format!("position.{}.weight", network.blueprint.encoding.name());
        let table = laid.graph.layout().find(&name).unwrap().range();
        let mut seen = [false; 6];
        for step in 0..60 {
            let ids = vec![0, 3, 4, 1, 5, 0];
            let given = Batch { ids, targets: vec![1; 6], step, is_training: true, ..Batch::default() };
            laid.set(given).unwrap();
            laid.graph.clear();
            laid.graph.step(1.0);
            let gradients = &laid.graph.gradients()[table.clone()];
            let rows: Vec<bool> = gradients.chunks(10).map(|row| row.iter().any(|x| *x != 0.0)).collect();
            // Two places of the longest number are read, and one row of all other tokens.
            let shift = rows.iter().rposition(|&is_read| is_read).unwrap() - 2;
            let wanted = |row: usize| {
                row == shift + 1 || row == shift + 2 || row == if moves_signs { shift } else { 0 }
            };
            assert!(
                rows.iter().enumerate().all(|(row, &is_read)| is_read == wanted(row)),
                "{label}: {rows:?}"
            );
            seen[shift] = true;
        }
        assert_eq!(seen, [true; 6], "{label}");
    }
}

/// Absolute codes and rotations stand where the batch says.
#[test]
fn positions_of_the_batch_are_used() {
    let own = |length: usize| (0..length as u32).map(|index| 3 * index + index % 3).collect();
    let hierarchical = Hierarchical { positions: Some(16), ..Hierarchical::default() };
    for encoding in [
        Encoding::Sinusoidal(Sinusoidal::default()),
        Encoding::Learned(Learned::default()),
        Encoding::Hierarchical(hierarchical),
        Encoding::Rotary(Rotary { values: true, ..Rotary::default() }),
        Encoding::ReceptiveField(ReceptiveField::default()),
    ] {
        check(&network(encoding, true), 220, own);
    }
    check(&network(Encoding::Xpos(Xpos::default()), true), 220, own);
}

#[test]
fn shaw_is_its_formula() {
    for tables in [ShawTables::Learned, ShawTables::Sinusoidal] {
        for (left, right, values) in
            [(3, 5, true), (16, 2, false), (0, 4, true), (100, 100, true), (4, 0, false)]
        {
            check_all(&Encoding::Shaw(Shaw { left, right, tables, values }), 70);
        }
    }
}

#[test]
fn xlnet_is_its_formula() {
    for clamp in [None, Some(0), Some(5), Some(100)] {
        check_all(&Encoding::XlNet(XlNet { clamp }), 70);
    }
}

#[test]
fn t5_is_its_formula() {
    for (buckets, furthest, is_scaled) in [(32, 128, true), (32, 128, false), (8, 20, true), (4, 3, true)] {
        check_all(&Encoding::T5(T5 { buckets, furthest, is_scaled }), 70);
    }
}

#[test]
fn deberta_is_its_formula() {
    for reach in [1, 5, 32, 100] {
        check_all(&Encoding::Deberta(Deberta { reach, ..Deberta::default() }), 70);
    }
    for label in [
        "deberta:reach=9,furthest=40,mirrored=false,projections=biased,norm=0.001",
        "deberta:reach=2,furthest=30,terms=keys,norm=0",
        "deberta:reach=6,terms=queries,projections=biased,absolute=true",
        "deberta:reach=20,furthest=12,terms=keys,mirrored=false,absolute=true",
    ] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
}

#[test]
fn alibi_is_its_formula() {
    check_all(&Encoding::Alibi(Alibi), 70);
    for heads in [1, 2, 6] {
        let network = network(Encoding::Alibi(Alibi), false).with(|own| {
            own.heads = heads;
            own.key_heads = 1;
        });
        check(&network, 70, |_| Vec::new());
    }
}

#[test]
fn kerple_is_its_formula() {
    check_all(&Encoding::Kerple(Kerple::default()), 70);
}

/// Every setting of rotary embedding that is tried.
fn rotaries() -> Vec<Rotary> {
    let plain = Rotary::default();
    let half = Rotary { pairing: Pairing::Half, ..plain.clone() };
    let with = |schedule: Schedule| Rotary { schedule, base: 500.0, ..half.clone() };
    let llama = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 64 };
    vec![
        plain.clone(),
        half.clone(),
        Rotary { pairing: Pairing::InterleavedToHalf, ..plain.clone() },
        Rotary { base: 37.5, ..plain.clone() },
        Rotary { rotary_dim: Some(4), ..plain.clone() },
        Rotary { rotary_dim: Some(4), values: true, base: 10.0, ..half.clone() },
        Rotary { values: true, ..plain.clone() },
        Rotary { values: true, ..half.clone() },
        Rotary { is_learned: true, ..plain.clone() },
        Rotary { is_learned: true, rotary_dim: Some(4), values: true, ..half.clone() },
        with(Schedule::Linear { factor: 4.0 }),
        with(Schedule::NtkAware { factor: 8.0 }),
        with(Schedule::Yarn(Yarn::new(4.0, 64))),
        with(Schedule::Llama3(llama)),
        with(Schedule::Proportional { fraction: 0.5, factor: 2.0 }),
        with(Schedule::ReceptiveField { alpha: 0.3, rho: 0.4 }),
        Rotary { schedule: Schedule::Yarn(Yarn::new(16.0, 32)), ..plain },
    ]
}

#[test]
fn rotary_is_its_formula() {
    for rotary in rotaries() {
        check_all(&Encoding::Rotary(rotary), 70);
    }
}

/// Frequencies that are learned begin as the schedule has them, and so does the whole network. Where a schedule also scales
/// vectors, the scale is either kept or the setting refused: it is never lost.
#[test]
fn learned_frequencies_begin_as_fixed_ones() {
    for rotary in rotaries() {
        let fixed = network(Encoding::Rotary(rotary.clone()), false);
        let learned = network(Encoding::Rotary(Rotary { is_learned: true, ..rotary.clone() }), false);
        if learned.build::<f64>(2, 7, 7).is_err() {
            assert!(matches!(rotary.schedule, Schedule::Yarn(_)), "{rotary:?}");
            continue;
        }
        let batch = batch(&fixed, 14, 4);
        let [fixed, learned] = [fixed, learned].map(|network| {
            let mut laid = network.build::<f64>(2, 7, 7).unwrap();
            let layout = laid.graph.layout().clone();
            layout.initialise(3, laid.graph.parameters_mut());
            for entry in layout.entries().iter().filter(|entry| !entry.name.starts_with("position.")) {
                laid.graph.parameters_mut()[entry.range.clone()].iter_mut().for_each(|x| *x *= 20.0);
            }
            hidden(&mut laid, &batch)
        });
        assert!(error(&learned, &fixed) <= 1e-12, "{rotary:?}");
    }
}

#[test]
fn receptive_field_is_its_formula() {
    for rotary in rotaries().into_iter().filter(|rotary| !rotary.is_learned) {
        let scales = matches!(rotary.schedule, Schedule::Yarn(_));
        let encoding = Encoding::ReceptiveField(ReceptiveField { rotary, alpha: 0.2, rho: 0.7 });
        // A schedule that also scales vectors may be refused; its scale is not to be lost.
        if scales && network(encoding.clone(), false).build::<f64>(1, 2, 2).is_err() {
            continue;
        }
        check_all(&encoding, 70);
    }
}

#[test]
fn xpos_is_its_formula() {
    for pairing in [Pairing::Interleaved, Pairing::Half] {
        for base in [10_000.0, 50.0] {
            let network = network(Encoding::Xpos(Xpos { base, pairing }), true);
            check(&network, 70, |_| Vec::new());
            check(
                &network.with(|own| {
                    own.heads = 4;
                    own.key_heads = 2;
                    own.head_dim = 6;
                }),
                70,
                |_| Vec::new(),
            );
        }
    }
}

#[test]
fn randomised_positions_are_rotary_at_those_positions() {
    let randomised = Randomised { range: 2048, rotary: Rotary { values: true, ..Rotary::default() } };
    let encoding = Encoding::Randomised(randomised);
    for is_causal in [false, true] {
        let network = network(encoding.clone(), is_causal);
        check(&network, 70, |length| encoding.as_encode::<f64>().positions(length, 3, 8).unwrap());
    }
    // Where none are drawn, as after training, they are 0, 1, 2 and so on.
    check_all(&encoding, 70);
}

/// Every encoding of the list has been checked at all, and reads its parameters: each matters.
#[test]
fn biases_of_later_years_are_their_formulas() {
    for label in [
        "kerple:kernel=power",
        "kerple:kernel=power,rate=1.5,strength=0.2",
        "sandwich",
        "sandwich:dim=6",
        "fire",
        "fire:hidden=5,rate=2,threshold=4",
        "forget",
        "forget:gate=relu,bias=0.1",
        "forget:rotary=true",
        "contextual",
        "contextual:positions=5",
        "contextual:positions=1",
        "path",
        "path:rank=2",
    ] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
}

#[test]
fn rotations_of_later_years_are_their_formulas() {
    for label in [
        "rotary:part=0.5",
        "rotary:part=0.99,pairing=half",
        "rotary:learned=heads",
        "rotary:learned=heads,values=true,part=0.7",
        "high",
        "high:part=1,period=7",
        "clipped",
        "clipped:period=9,width=50",
        "clipped:period=9",
        "clipped:period=1e6",
        "clipped:period=3,width=1,base=50",
        "pope",
        "pope:base=100,phases=false",
        "pose",
        "layers",
        "layers:every=1",
        "layers:every=1,far=100",
        "layers:window=3,base=100",
        "layers:window=0",
    ] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
    for label in ["axial", "axial:side=1", "axial:side=5,base=1000", "axial:side=71"] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
    // Of grids with shorter rows positions are given: here with seven of every ten columns.
    let shorter = |length: usize| (0..length as u32).map(|index| index / 7 * 10 + index % 7).collect();
    check(&network(Encoding::parse("axial:side=10").unwrap(), true), 70, shorter);
    let own = |length: usize| (0..length as u32).map(|index| 3 * index + index % 3).collect();
    for label in ["high", "clipped", "pope", "pose", "forget:rotary=true"] {
        check(&network(Encoding::parse(label).unwrap(), true), 220, own);
    }
}

#[test]
fn turning_by_what_is_read_is_its_formula() {
    for label in ["selective", "selective:base=100,bias=0", "selective:bias=-0.7"] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
}

#[test]
fn what_is_far_is_held_or_counted_in_groups() {
    for label in [
        "extend",
        "extend:window=1",
        "extend:window=5,group=3",
        "extend:window=17,group=4,base=100,pairing=half",
        "extend:window=63,group=2,dim=4",
        "extend:window=1000,group=7",
    ] {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
    // Over several tiles of keys; within the window nothing is changed, to the bit.
    for label in ["extend:window=40", "extend:window=150,group=8", "extend:window=300"] {
        let network = network(Encoding::parse(label).unwrap(), true);
        let (mut laid, batch) = (lay(&network, 1, 290, 290), batch(&network, 290, 2));
        let got = hidden(&mut laid, &batch);
        assert!(error(&got, &naive::hidden(&laid, &network, &batch, 290)) <= 1e-10, "{label}");
        let rotary = network.with(|own| own.encoding = Encoding::Rotary(Rotary::default()));
        let plain = hidden(&mut lay(&rotary, 1, 290, 290), &batch);
        let near = got.iter().zip(&plain).take_while(|(got, plain)| got == plain).count() / 10;
        let window = if let Encoding::Extend(own) = &network.blueprint.encoding { own.far.window } else { 0 };
        assert_eq!(near, window.min(290), "{label}");
    }
}

#[test]
fn sums_of_frequencies_are_their_formula() {
    for label in
        ["fope", "fope:period=2000", "fope:period=7,gain=2,seed=5", "fope:period=5", "fope:base=30,gain=0"]
    {
        check_all(&Encoding::parse(label).unwrap(), 70);
    }
    // Without others, a frequency is kept or stands still: a hard clip.
    let [fope, clipped] = ["fope:gain=0,period=9", "clipped:width=1,period=9"].map(|label| {
        let network = network(Encoding::parse(label).unwrap(), false);
        hidden(&mut lay(&network, 2, 60, 60), &batch(&network, 120, 4))
    });
    assert!(error(&fope, &clipped) < 1e-12);
    // The identity, and numbers as Xavier draws them; others for every seed, layer and head.
    let own = Fope { gain: 0.3, ..Fope::default() };
    let pairs = 40;
    let draws = |own: Fope, layer, head| {
        let of = move |f: usize, j: usize| own.coefficients([layer, head, pairs], [f, j]);
        (0..pairs * pairs).map(move |at| (at, of(at / pairs, at % pairs)))
    };
    let rest = |(at, [cos, sin]): (usize, [f64; 2])| {
        let own = if at / pairs == at % pairs { 1.0 } else { 0.0 };
        [cos - own, sin - own]
    };
    let all: Vec<f64> = draws(own, 0, 0).flat_map(rest).collect();
    let (mean, square) = (all.iter().sum::<f64>(), all.iter().map(|x| x * x).sum::<f64>());
    let (count, variance) = (all.len() as f64, 0.3 * 0.3 / pairs as f64);
    assert!((mean / count).abs() < 4.0 * (variance / count).sqrt(), "{mean}");
    assert!((square / count / variance - 1.0).abs() < 4.0 * (2.0 / count).sqrt(), "{square}");
    let first = |own, layer, head| draws(own, layer, head).map(|(_, draw)| draw).next().unwrap();
    let others = [(own, 1, 0), (own, 0, 1), (Fope { seed: 1, ..own }, 0, 0)];
    assert!(others.iter().all(|&(own, layer, head)| first(own, layer, head) != first(others[0].0, 0, 0)));
}

/// Tokens that all turn as far are at the positions of rotary embedding.
#[test]
fn turning_by_nothing_that_is_read_is_rotary() {
    let mixings = [Mixing::Softmax, Mixing::Linear(LinearForm::default())];
    for (mixing, base) in mixings.into_iter().flat_map(|mixing| [(mixing, 10_000.0), (mixing, 30.0)]) {
        let [rotary, selective] =
            [format!("rotary:base={base}"), format!("selective:base={base}")].map(|label| {
                let network = network(Encoding::parse(&label).unwrap(), true).with(|own| own.mixing = mixing);
                lay(&network, 2, 90, 90)
            });
        let (mut rotary, mut selective) = (rotary, selective);
        let layout = selective.graph.layout().clone();
        for entry in layout.entries() {
            let numbers: Vec<f64> = match &entry.name[..] {
                "position.selective.0.weight" => vec![0.0; entry.range.len()],
                "position.selective.0.bias" => vec![1.0; entry.range.len()],
                name => net::parameter(&rotary, name).to_vec(),
            };
            selective.graph.parameters_mut()[entry.range.clone()].copy_from_slice(&numbers);
        }
        let batch = batch(rotary.network(), 180, 4);
        let far = error(&hidden(&mut selective, &batch), &hidden(&mut rotary, &batch));
        assert!(far < 1e-11, "{mixing:?}, {base}: {far:.1e}");
    }
}

/// Gates that read nothing are ALiBi, at whatever slope their bias says.
#[test]
fn gates_that_read_nothing_are_alibi() {
    let [alibi, forget] = ["alibi", "forget"].map(|label| network(Encoding::parse(label).unwrap(), true));
    let [mut alibi, mut gated] =
        [(alibi, 30), (forget, 30)].map(|(network, length)| lay(&network, 2, length, length));
    let layout = gated.graph.layout().clone();
    let slopes = super::formula::alibi_slopes(3);
    // ln σ(b) = −m
    let bias = |slope: &f64| -(slope.exp() - 1.0).ln();
    for entry in layout.entries() {
        let numbers: Vec<f64> = match &entry.name[..] {
            "position.forget.0.weight" => vec![0.0; entry.range.len()],
            "position.forget.0.bias" => slopes.iter().map(bias).collect(),
            name => net::parameter(&alibi, name).to_vec(),
        };
        gated.graph.parameters_mut()[entry.range.clone()].copy_from_slice(&numbers);
    }
    let batch = batch(alibi.network(), 60, 4);
    let far = error(&hidden(&mut gated, &batch), &hidden(&mut alibi, &batch));
    assert!(far < 1e-12, "{far:.1e}");
}

/// Gates that are all open count tokens: vectors by distance, as Shaw's are.
#[test]
fn gates_that_are_open_count_tokens() {
    let mut open = lay(&network(Encoding::parse("contextual:positions=9").unwrap(), true), 1, 30, 30);
    let mut shaw = lay(&network(Encoding::parse("shaw:reach=8,values=false").unwrap(), true), 1, 30, 30);
    let layout = open.graph.layout().clone();
    let joined = |name: &str| name.ends_with("in_proj_weight") || name.ends_with("in_proj_bias");
    for entry in layout.entries() {
        let numbers = &mut open.graph.parameters_mut()[entry.range.clone()];
        // Every score of 50 and more opens its gate, and none is larger than another: q = (50·√d, …), k = (1, 0, …).
        if joined(&entry.name) {
            let row = numbers.len() / 72;
            let of = |at: usize| match (at / row / 24, at / row % 8, entry.name.ends_with("bias")) {
                (0, 0, true) => Some(50.0 * 8f64.sqrt()),
                (1, 0, true) => Some(1.0),
                (0 | 1, 0, false) | (1, _, _) => Some(0.0),
                _ => None,
            };
            numbers.iter_mut().enumerate().for_each(|(at, x)| *x = of(at).unwrap_or(*x));
        }
        // Tables whose products with that query are of the size of 1.
        if entry.name.contains("contextual") {
            numbers.iter_mut().step_by(8).for_each(|x| *x *= 0.01);
        }
    }
    let table = net::parameter(&open, "position.contextual.0.weight").to_vec();
    for entry in shaw.graph.layout().entries().to_vec() {
        let numbers: Vec<f64> = match entry.name.contains("shaw") {
            // Row 8 − r is that of the distance r, which counts r + 1 tokens; Shaw's products are divided by √d.
            true => (0..17)
                .flat_map(|row: usize| table[8 * 9usize.saturating_sub(row).max(1)..][..8].to_vec())
                .map(|x| x * 8f64.sqrt())
                .collect(),
            false => net::parameter(&open, &entry.name).to_vec(),
        };
        shaw.graph.parameters_mut()[entry.range.clone()].copy_from_slice(&numbers);
    }
    let batch = batch(open.network(), 30, 4);
    let far = error(&hidden(&mut open, &batch), &hidden(&mut shaw, &batch));
    assert!(far < 1e-10, "{far:.1e}");
}

/// Maps with β = 0 change nothing; with β = 2 they reflect, and lengthen nothing over a long text.
#[test]
fn maps_of_tokens_leave_out_or_reflect() {
    let with = |bias: f64, length: usize| {
        let mut path = lay(&network(Encoding::parse("path").unwrap(), true), 1, length, length);
        let range = path.graph.layout().find("position.path.0.beta.bias").unwrap().range();
        path.graph.parameters_mut()[range].fill(bias);
        path
    };
    let mut still = with(-1e4, 70);
    let mut none = lay(&network(NONE, true), 1, 70, 70);
    let batch_of = |length: usize| batch(still.network(), length, 4);
    let (given, long) = (batch_of(70), batch_of(130));
    let far = error(&hidden(&mut still, &given), &hidden(&mut none, &given));
    assert!(far < 1e-12, "{far:.1e}");
    let mut reflecting = with(1e4, 130);
    let network = reflecting.network().clone();
    let got = hidden(&mut reflecting, &long);
    let far = error(&got, &naive::hidden(&reflecting, &network, &long, 130));
    assert!(far <= 1e-10, "{far:.1e}");
    assert!(error(&hidden(&mut with(-1e4, 130), &long), &got) > 1e-3);
}

#[test]
fn every_parameter_of_an_encoding_matters() {
    for encoding in Encoding::all() {
        let network = network(encoding, true);
        let mut laid = lay(&network, 1, 40, 40);
        let batch = batch(&network, 40, 1);
        let before = hidden(&mut laid, &batch);
        for entry in laid.graph.layout().entries().to_vec() {
            if !entry.name.starts_with("position.") {
                continue;
            }
            let numbers = laid.graph.parameters()[entry.range.clone()].to_vec();
            // Not all by the same: of some a length means nothing.
            let changed = &mut laid.graph.parameters_mut()[entry.range.clone()];
            changed.iter_mut().enumerate().for_each(|(index, x)| *x *= [1.1, 0.93][index % 2]);
            let after = hidden(&mut laid, &batch);
            assert!(error(&after, &before) > 1e-6, "{} changes nothing", entry.name);
            laid.graph.parameters_mut()[entry.range.clone()].copy_from_slice(&numbers);
        }
        assert!(error(&hidden(&mut laid, &batch), &before) == 0.0);
    }
}
