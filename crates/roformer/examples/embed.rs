//! Vectors of texts, and which of them are near: `cargo run --release -p roformer --example embed`

use roformer::Pipeline;
use roformer::pipeline::Embed;

fn main() -> roformer::Result<()> {
    let model = std::env::args().nth(1).unwrap_or("examples/models/tiny-sim".into());
    let roformer = Pipeline::load(&model)?;

    let vector = roformer.embed("广州和深圳哪个好？", Embed { normalize: true, ..Embed::default() })?;
    println!("{} features, the first {:.4}", vector.len(), vector[0]);
    println!("similarity {:.4}", roformer.similarity("广州和深圳哪个好？", "深圳和广州哪个比较好？")?);

    let texts = ["北京和上海哪个好？", "深圳和广州哪个比较好？", "今天天气怎么样？"];
    for ranked in roformer.rank("广州和深圳哪个好？", &texts)? {
        println!("{:.4}  {}", ranked.score, texts[ranked.index]);
    }
    Ok(())
}
