//! prof
use ::roformer::model::{Hashed, HeadKind, Input, RoFormer, RoFormerConfig};
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let config = RoFormerConfig::from_json(br#"{"vocab_size": 12000}"#).unwrap();
    let model = RoFormer::<f32>::from_parameters(config, HeadKind::None, &Hashed).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(a[2]).build().unwrap();
    let ids: Vec<u32> = (0..a[0] * a[1]).map(|i| (i * 7919 % 12000) as u32).collect();
    let input = Input { ids: &ids, batch: a[0], token_types: None, mask: None };
    for _ in 0..a[3] {
        let t = std::time::Instant::now();
        pool.install(|| model.forward(&input)).unwrap();
        print!("{:.1} ", t.elapsed().as_secs_f64() * 1e3);
    }
    println!();
}
