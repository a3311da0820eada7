//! Other ways to say the same, by RoFormer-Sim: `cargo run --release -p roformer --example paraphrase`

use roformer::Pipeline;
use roformer::pipeline::Generate;

fn main() -> roformer::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or("examples/models/tiny-sim".into());
    let text = arguments.next().unwrap_or("广州和深圳哪个好？".into());

    let roformer = Pipeline::load(&model)?;
    for paraphrase in roformer.paraphrase(&text, 5, &Generate::default())? {
        println!("{:.4}  {}", paraphrase.score, paraphrase.text);
    }
    Ok(())
}
