//! burn's layer by its own names: the same where burn is right, exact where burn is not, and its files and errors.

mod common;

use burn::config::Config;
use burn::tensor::{DType, Device, Tensor};
use common::{Random, bound, devices, largest, numbers, oracle};
use rope_burn::RotaryEncodingConfig;
use rope_burn::rotary::Result;

/// How far burn may be from the exact rotation of numbers to 1: it forms θ = 1/exp(2j/d·ln base) and position·θ in f32. ln base and its
/// product are each rounded, so the exponent, at most ln base = 9.3, is off by up to 2u of itself; then one rounding each, two for exp, and
/// that of the product with the position.
fn burns_error(position: f64) -> f64 {
    2f64.sqrt() * (position * (2.0 * 9.3 + 4.0) + 8.0) * 2f64.powi(-24)
}

#[test]
fn as_burns_own() -> Result<()> {
    let mut random = Random(31);
    for (device, _) in devices() {
        for d_model in [2, 8, 64, 130] {
            let theirs = burn::nn::RotaryEncodingConfig::new(40, d_model).init(&device);
            let ours = RotaryEncodingConfig::new(40, d_model).init(&device);
            assert_eq!(ours.to_string(), theirs.to_string());
            for start in [0, 7] {
                let x = random.tensor([2, 3, 33, d_model], (&device, DType::F32));
                let y = ours.apply(x.clone(), start);
                let exact = oracle(&x, ours.rope(), |_, t| (t + start) as f64);
                assert!(largest(&numbers(&y), &exact) <= bound(DType::F32, 1.0));
                let worst = largest(&numbers(&theirs.apply(x, start)), &numbers(&y));
                assert!(worst <= burns_error(40.0), "{d_model}: {worst:e}");
            }
            let x = random.tensor([4, 5, d_model], (&device, DType::F32));
            let worst = largest(&numbers(&theirs.forward(x.clone())), &numbers(&ours.forward(x)));
            assert!(worst <= burns_error(5.0));
        }
    }
    Ok(())
}

/// Far from 0 burn's angles are off, these are not; and 16 bits, which burn's layer does not take, are rotated.
#[test]
fn exact_where_burn_is_not() -> Result<()> {
    let device = Device::flex();
    let length = 200_000;
    let theirs = burn::nn::RotaryEncodingConfig::new(length, 64).init(&device);
    let ours = RotaryEncodingConfig::new(length, 64).init(&device);
    let x = Random(32).tensor([1, 1, 100, 64], (&device, DType::F32));
    let exact = oracle(&x, ours.rope(), |_, t| (199_900 + t) as f64);
    let off = |y: Tensor<4>| largest(&numbers(&y), &exact);
    let burns = off(theirs.apply(x.clone(), 199_900));
    println!("burn near position 200,000: off by {burns:.0e}");
    assert!(burns > 1e-3, "burn has mended this: say so in the README");
    assert!(off(ours.apply(x.clone(), 199_900)) <= bound(DType::F32, 1.0));
    for dtype in [DType::F16, DType::BF16] {
        let x = x.clone().cast(dtype);
        let refused = std::panic::catch_unwind(|| theirs.forward(x.clone()));
        assert!(refused.is_err(), "burn has mended this: say so in the README");
        let exact = oracle(&x, ours.rope(), |_, t| t as f64);
        assert!(largest(&numbers(&ours.forward(x)), &exact) <= bound(dtype, 1.0));
    }
    Ok(())
}

#[test]
fn windows_move() -> Result<()> {
    let device = Device::flex();
    let x = Random(33).tensor([1, 2, 4, 8], (&device, DType::F32));
    let all = RotaryEncodingConfig::new(100, 8).init(&device);
    let mut window = RotaryEncodingConfig::new(6, 8).init(&device);
    let mut theirs = burn::nn::RotaryEncodingConfig::new(6, 8).init(&device);
    for start in [2, 5, 90] {
        window.shift(start);
        theirs.shift(start);
        for more in [0, 2] {
            let y = window.apply(x.clone(), more);
            assert_eq!(numbers(&y), numbers(&all.apply(x.clone(), start + more)));
            let worst = largest(&numbers(&theirs.apply(x.clone(), more)), &numbers(&y));
            assert!(worst <= burns_error(100.0));
        }
        let error = window.try_apply(x.clone(), 3).expect_err("beyond the window").to_string();
        assert!(error.contains(&format!("position {} is not in the table", start + 6)), "{error}");
    }
    window.reset();
    assert_eq!(numbers(&window.forward(x.clone())), numbers(&all.forward(x)));
    assert!(window.try_shift(usize::MAX).is_err());
    Ok(())
}

/// Frequencies of one's own, and files of burn's.
#[test]
fn scaled_frequencies_and_files() -> Result<()> {
    let device = Device::flex();
    let theirs = burn::nn::RotaryEncodingConfig::new(32, 8).with_theta(5e5);
    let ours = RotaryEncodingConfig::load_binary(theirs.to_string().as_bytes()).expect("burn's file");
    assert_eq!((ours.max_sequence_length, ours.d_model, ours.theta), (32, 8, 5e5));
    assert_eq!(ours.to_string(), theirs.to_string());
    let x = Random(34).tensor([1, 2, 32, 8], (&device, DType::F32));
    let halved = |theta: Tensor<1>| theta / 2.0;
    let expected = theirs.init_with_frequency_scaling(halved, &device).forward(x.clone());
    let got = ours.init_with_frequency_scaling(halved, &device).forward(x);
    assert!(largest(&numbers(&got), &numbers(&expected)) <= burns_error(32.0));
    let fewer = ours.try_init_with_frequency_scaling(|theta| theta.slice_dim(0, 0..3), &device);
    let error = fewer.expect_err("three of four").to_string();
    assert!(error.contains("one frequency per pair: 4"), "{error}");
    Ok(())
}

/// What burn's layer panics at is an error here, and a panic with its words under burn's names.
#[test]
fn errors() {
    let device = Device::flex();
    let says = |result: Result<String>, words: &str| {
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "`{error}` does not say `{words}`");
    };
    let init = |config: RotaryEncodingConfig| config.try_init(&device).map(|made| made.to_string());
    says(init(RotaryEncodingConfig::new(10, 15)), "head_dim is 15; expected an even number");
    says(init(RotaryEncodingConfig::new(10, 0)), "head_dim is 0");
    says(init(RotaryEncodingConfig::new(10, 4).with_theta(0.0)), "base is 0");
    says(init(RotaryEncodingConfig::new(usize::MAX, 4)), "at most 2^31 - 1");
    let layer = RotaryEncodingConfig::new(10, 4).init(&device);
    let apply = |x: Tensor<3>, start| layer.try_apply(x, start).map(|_| String::new());
    says(apply(Tensor::zeros([1, 5, 6], &device), 0), "expected head_dim 4");
    says(apply(Tensor::zeros([1, 11, 4], &device), 0), "position 10 is not in the table");
    says(apply(Tensor::zeros([1, 1, 4], &device), usize::MAX), "less than 10");
    assert!(layer.try_apply(Tensor::<1>::zeros([4], &device), 0).is_err());
    let panic = std::panic::catch_unwind(|| layer.forward(Tensor::<3>::zeros([1, 5, 6], &device)));
    let words = panic.expect_err("as burn's own").downcast::<String>().expect("its words");
    assert!(words.contains("expected head_dim 4"), "{words}");
    let mut shifted = RotaryEncodingConfig::new(4, 4).init(&device);
    shifted.shift(6);
    let back = std::panic::catch_unwind(move || shifted.shift(4));
    assert!(back.is_err());
}
