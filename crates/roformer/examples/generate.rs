//! A text continued, token after token: `cargo run --release -p roformer --example generate`

use roformer::Pipeline;
use roformer::pipeline::Generate;

fn main() -> roformer::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or("examples/models/tiny-gpt".into());
    let text = arguments.next().unwrap_or("今天".into());

    let roformer = Pipeline::load(&model)?;
    print!("{text}");
    roformer.generate(&text, &Generate { max_tokens: 32, seed: 1, ..Generate::default() }, |new| {
        print!("{new}")
    })?;
    println!();
    Ok(())
}
