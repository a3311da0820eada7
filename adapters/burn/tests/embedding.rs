//! `RotaryEmbedding`: every schedule, partial rotary, position ids, packed sequences, several axes, a cache; as a module of burn.

mod common;

use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::{PAIRINGS, Random, bound, devices, largest, numbers, oracle, rope};
use rope::{Axes, Llama3, LongRope, Pairing, Rope, Schedule, Yarn};
use rope_burn::rotary::Result;
use rope_burn::{Positions, RotaryEmbedding, RotaryEmbeddingConfig, Rows};

/// Every schedule, for 5 pairs.
fn schedules() -> Vec<Schedule> {
    let given: Vec<f64> = (1..=5).map(|j| 1.0 / f64::from(j)).collect();
    let long = LongRope {
        short: vec![1.0; 5],
        long: given.iter().map(|x| 1.0 / x).collect(),
        original_length: 32,
        factor: 4.0,
        attention_factor: None,
    };
    let llama = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 64 };
    vec![
        Schedule::Default,
        Schedule::Linear { factor: 2.5 },
        Schedule::NtkAware { factor: 4.0 },
        Schedule::DynamicNtk { factor: 2.0, trained_length: 32 },
        Schedule::Yarn(Yarn::new(4.0, 32)),
        Schedule::LongRope(long),
        Schedule::Llama3(llama),
        Schedule::Proportional { fraction: 0.5, factor: 1.0 },
        Schedule::ReceptiveField { alpha: 0.5, rho: 1.0 },
        Schedule::Given(given),
    ]
}

/// Every schedule and pairing, a part of the head, in every type; and its settings through a file of burn's.
#[test]
fn every_schedule() -> Result<()> {
    use burn::config::Config;
    let mut random = Random(21);
    for schedule in schedules() {
        for pairing in PAIRINGS {
            let config = RotaryEmbeddingConfig::new(90, 16)
                .with_rotary_dim(Some(10))
                .with_rotary_offset(3)
                .with_pairing(pairing)
                .with_schedule(schedule.clone());
            let rope = config.rope()?;
            let read =
                RotaryEmbeddingConfig::load_binary(config.to_string().as_bytes()).expect("its own text");
            assert_eq!(read.rope()?, rope, "{config}");
            assert_eq!(RotaryEmbeddingConfig::of(&rope, 90)?.rope()?, rope);
            for (device, dtypes) in devices() {
                let rows = read.init(&device)?.at(Positions::From(80))?;
                for &dtype in dtypes {
                    let x = random.tensor([2, 3, 9, 16], (&device, dtype));
                    let exact = oracle(&x, &rope, |_, t| (80 + t) as f64);
                    let y = rows.rotate(x)?;
                    let bound = bound(dtype, rope.frequencies(None).attention_factor());
                    let worst = largest(&numbers(&y), &exact);
                    assert!(worst <= bound, "{schedule} {pairing} {dtype:?}: {worst:e}");
                }
            }
        }
    }
    Ok(())
}

/// Beyond the trained length the rules that depend on it give other frequencies, and only when told.
#[test]
fn sequence_length_is_said() -> Result<()> {
    let device = Device::flex();
    let schedule = Schedule::DynamicNtk { factor: 2.0, trained_length: 32 };
    let config = RotaryEmbeddingConfig::new(64, 8).with_schedule(schedule);
    let embedding = config.init(&device)?;
    let table =
        |embedding: &RotaryEmbedding| Ok::<_, rope_burn::Error>(numbers(&embedding.cos_sin(&device)?.0));
    let longer =
        [embedding.with_sequence_length(64)?, config.clone().with_sequence_length(Some(64)).init(&device)?];
    let own = config.rope()?.table::<f32>(0..64, 64)?;
    let own: Vec<f64> = own.cos().iter().map(|&x| x.into()).collect();
    for longer in longer {
        assert_ne!(table(&embedding)?, table(&longer)?);
        assert_eq!(table(&longer)?, own);
        // Doubles follow.
        let x = Random(2).tensor([1, 1, 64, 8], (&device, DType::F64));
        let rows = longer.at(Positions::From(0))?;
        let (doubles, singles) = (rows.rotate(x.clone())?, rows.rotate(x.cast(DType::F32))?);
        assert!(largest(&numbers(&doubles), &numbers(&singles)) < 1e-6);
    }
    Ok(())
}

#[test]
fn ids_packed_and_axes() -> Result<()> {
    let mut random = Random(22);
    for (device, _) in devices() {
        let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 50, &device)?;
        let x = random.tensor([2, 3, 4, 8], (&device, DType::F32));
        let list = [[7, 0, 49, 3], [1, 2, 3, 4]];
        let check = |rows: Rows, position: &dyn Fn(usize, usize) -> f64, x: &Tensor<4>| {
            let exact = oracle(x, embedding.rope(), position);
            assert!(largest(&numbers(&rows.rotate(x.clone())?), &exact) <= bound(DType::F32, 1.0));
            Ok::<_, rope_burn::Error>(())
        };
        for dtype in [DType::U8, DType::I16, DType::I32, DType::U32, DType::I64] {
            let ids = Tensor::<2, Int>::from_data(list, (&device, dtype));
            check(embedding.at(Positions::BatchIds(&ids))?, &|b, t| f64::from(list[b][t]), &x)?;
            let first = ids.slice_dim(0, 0..1).reshape([4]);
            check(embedding.at(Positions::Ids(&first))?, &|_, t| f64::from(list[0][t]), &x)?;
        }
        // Three sequences of 3, 0 and 2 tokens in one row, with and without the leading 0.
        let packed = random.tensor([1, 2, 5, 8], (&device, DType::F32));
        for ends in [vec![0, 3, 3, 5], vec![3, 3, 5]] {
            let ends = Tensor::<1, Int>::from_ints(ends.as_slice(), &device);
            let rows = embedding.at(Positions::Packed(&ends))?;
            check(rows, &|_, t| [0.0, 1.0, 2.0, 0.0, 1.0][t], &packed)?;
        }
        // Fractional and negative positions on one axis.
        let given = [[0.5, -3.25, 10.0, 7.75], [1e3, 0.0, 0.125, -0.5]];
        let positions = Tensor::<3>::from_floats([given], &device);
        check(embedding.at(Positions::BatchAxes(&positions))?, &|b, t| given[b][t], &x)?;
        let second = positions.slice_dim(1, 1..2).reshape([1, 4]);
        check(embedding.at(Positions::Axes(&second))?, &|_, t| given[1][t], &x)?;
        // M-RoPE: each pair follows its axis.
        let sections = Rope::builder(8).axes(Axes::Sections(vec![1, 2, 1])).build()?;
        let grid = [[0.0, 1.0, 2.0, 3.0], [5.0, 6.0, 7.0, 8.0], [9.0, 7.0, 5.0, 3.0]];
        let rows = RotaryEmbedding::new(&sections, 0, &device)?;
        let y = rows.at(Positions::Axes(&Tensor::from_floats(grid, &device)))?.rotate(x.clone())?;
        let (axes, theta) = (sections.axis_of_pairs(), sections.frequencies(None));
        for (vector, (x, y)) in numbers(&x).chunks(8).zip(numbers(&y).chunks(8)).enumerate() {
            for pair in 0..4 {
                let angle = grid[axes[pair]][vector % 4] * theta.inv_freq()[pair];
                let exact = x[pair] * angle.cos() - x[pair + 4] * angle.sin();
                assert!((y[pair] - exact).abs() <= bound(DType::F32, 1.0));
            }
        }
    }
    Ok(())
}

/// A prompt and then one token at a time gives the bits of the whole sequence at once.
#[test]
fn decoding_with_a_cache() -> Result<()> {
    let device = Device::flex();
    let config = include_bytes!("../examples/llama-3.1-8b.json");
    let embedding = RotaryEmbeddingConfig::from_hf(config, 64)?.init(&device)?;
    let k = Random(23).tensor([1, 8, 20, 128], (&device, DType::BF16));
    let (_, whole) = embedding.apply(k.clone(), k.clone(), 0)?;
    let tokens = |range| k.clone().slice_dim(2, range);
    let mut cache = vec![embedding.apply(k.clone(), tokens(0..12), 0)?.1];
    for token in 12..20 {
        cache.push(embedding.apply(k.clone(), tokens(token..token + 1), token)?.1);
    }
    assert_eq!(numbers(&Tensor::cat(cache, 2)), numbers(&whole));
    Ok(())
}

/// What a `config.json` means: the pairing, the part of a head that turns, and the rule; or why it is refused.
#[test]
fn configurations_of_models() -> Result<()> {
    let of = |text: &str| RotaryEmbeddingConfig::from_hf(text.as_bytes(), 32);
    let gptj = of(r#"{"model_type": "gptj", "n_embd": 64, "n_head": 1, "rotary_dim": 32}"#)?;
    assert_eq!((gptj.pairing, gptj.rotary_dim, gptj.head_dim), (Pairing::Interleaved, Some(32), 64));
    let qwen = of(r#"{"model_type": "qwen2", "head_dim": 128, "rope_theta": 1000000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}"#)?;
    assert_eq!((qwen.pairing, qwen.base), (Pairing::Half, 1e6));
    assert_eq!(qwen.schedule, Schedule::Yarn(Yarn::new(4.0, 32768)));
    let says = |result: Result<RotaryEmbeddingConfig>, words: &str| {
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "`{error}` does not say `{words}`");
    };
    says(of(r#"{"head_dim": 8}"#), "model_type");
    says(of("{"), "not a configuration");
    says(of(r#"{"model_type": "bert"}"#), "expected a model with rotary embedding");
    let xpos = Rope::builder(8).xpos(rope::XPos::default()).build()?;
    says(RotaryEmbeddingConfig::of(&xpos, 4), "keys and queries would need tables of their own");
    // Half of 66 features: 33 in the exponents, of which a configuration has no field.
    let odd =
        r#"{"model_type": "phi", "hidden_size": 66, "num_attention_heads": 1, "partial_rotary_factor": 0.5}"#;
    says(of(odd), "RotaryEmbedding::new");
    let odd = Rope::from_hf(odd.as_bytes())?;
    assert_eq!(RotaryEmbedding::new(odd.only()?, 4, &Device::flex())?.rope().rotary_dim(), 34);
    Ok(())
}

/// As a part of a model: no parameters, records that neither hold nor need it, moved and cloned at no cost.
#[test]
fn a_module_of_burn() -> Result<()> {
    use burn::nn::{Linear, LinearConfig};
    #[derive(Module, Debug)]
    struct Layer {
        q: Linear,
        rope: RotaryEmbedding,
    }
    let device = Device::flex();
    let config = RotaryEmbeddingConfig::new(16, 8).with_schedule(Schedule::Linear { factor: 2.0 });
    let layer = || {
        Ok::<_, rope_burn::Error>(Layer {
            q: LinearConfig::new(8, 8).init(&device),
            rope: config.init(&device)?,
        })
    };
    let (layer, other) = (layer()?, layer()?);
    assert_eq!(layer.num_params(), layer.q.num_params());
    let name = std::env::temp_dir().join(format!("rope-burn-{}.bpk", std::process::id()));
    layer.clone().save_file(&name).expect("saved");
    // Numbers are read when they are needed, so the file stays for so long.
    let other = other.load_file(&name);
    let x = Random(25).tensor([1, 2, 4, 8], (&device, DType::F32));
    let forward = |layer: &Layer| {
        Ok::<_, rope_burn::Error>(numbers(
            &layer.rope.at(Positions::From(3))?.rotate(layer.q.forward(x.clone()))?,
        ))
    };
    assert_eq!(forward(&other)?, forward(&layer)?);
    std::fs::remove_file(&name).expect("removed");
    let moved = layer.clone().to_device(&device).fork(&device).no_grad().valid();
    assert_eq!(forward(&moved)?, forward(&layer)?);
    assert_eq!(
        layer.rope.to_string(),
        "RotaryEmbedding {head_dim: 8, rotary_dim: 8, pairing: half, schedule: linear (factor 2), max_sequence_length: 16}"
    );
    assert!(format!("{:?}", layer.rope).len() < 300, "a table is not printed number by number");
    Ok(())
}

/// What is wrong is said, with the value.
#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let device = Device::flex();
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 16, &device)?;
    let x = Random(24).tensor([1, 2, 4, 8], (&device, DType::F32));
    fn says<T>(result: Result<T>, words: &str) {
        let Err(error) = result else { panic!("not refused: {words}") };
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    }
    let at = |positions: Positions<'_>| embedding.at(positions);
    let ids = |list: &[i64]| Tensor::<1, Int>::from_ints(list, &device);
    says(at(Positions::From(13))?.rotate(x.clone()), "position 16 is not in the table");
    says(at(Positions::From(usize::MAX)), "expected one that a table can have");
    says(at(Positions::Ids(&ids(&[0, 1, 2, -1]))), "position -1 is not in the table");
    says(at(Positions::Ids(&ids(&[0, 1])))?.rotate(x.clone()), "position ids: got 2; expected 4");
    // Ids that need all of 64 bits, and ones that repeat without end.
    let large = TensorData::new(vec![0, u64::MAX], [2]);
    let large = Tensor::<1, Int>::from_data(large, (&device, DType::U64));
    says(at(Positions::Ids(&large)), "position is 18446744073709551615");
    says(at(Positions::Ids(&ids(&[1]).expand([1usize << 60]))), "one that fits in memory");
    let endless = Tensor::<2>::zeros([1, 1], &device).expand([1usize, 1 << 60]);
    says(at(Positions::Axes(&endless)), "one that fits in memory");
    says(at(Positions::Packed(&ids(&[3, 2]))), "cumulative lengths that do not decrease");
    says(at(Positions::Axes(&Tensor::zeros([2, 4], &device))), "[1, length] or [1, batch, length]");
    says(at(Positions::Axes(&Tensor::full([1, 4], f32::NAN, &device))), "position is NaN");
    says(
        at(Positions::From(0))?.rotate(Tensor::<1>::zeros([8], &device)),
        "[batch, heads, length, head_dim]",
    );
    says(at(Positions::From(0))?.rotate(x.clone().slice_dim(3, 0..6)), "expected head_dim 8");
    says(at(Positions::From(0))?.rotate_blhd(x.slice_dim(3, 0..6)), "expected head_dim 8");
    let config = RotaryEmbeddingConfig::new(16, 8);
    says(config.clone().with_rotary_dim(Some(9)).init(&device), "rotary_dim is 9; expected an even number");
    says(config.clone().with_base(-1.0).init(&device), "base is -1");
    says(RotaryEmbeddingConfig::new(usize::MAX, 8).init(&device), "at most 2^31 - 1");
    says(RotaryEmbeddingConfig::new(i32::MAX as usize, 8192).init(&device), "does not fit in memory");
    says(config.with_schedule(Schedule::Given(vec![1.0])).init(&device), "one frequency per pair: 4");
    Ok(())
}
