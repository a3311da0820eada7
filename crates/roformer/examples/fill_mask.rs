//! What stands behind the mask: `cargo run --release -p roformer --example fill_mask`

use roformer::Pipeline;

fn main() -> roformer::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or("examples/models/tiny-mlm".into());
    let text = arguments.next().unwrap_or("今天[MASK]很好。".into());

    let roformer = Pipeline::load(&model)?;
    for guess in roformer.fill_mask(&text, 5)? {
        println!("{:.3}  {}", guess.score, guess.text);
    }
    Ok(())
}
