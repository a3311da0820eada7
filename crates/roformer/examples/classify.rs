//! Labels of texts: `cargo run --release -p roformer --example classify`

use roformer::Pipeline;

fn main() -> roformer::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or("examples/models/tiny-classifier".into());
    let text = arguments.next().unwrap_or("这部电影很好看。".into());

    let roformer = Pipeline::load(&model)?;
    for label in roformer.classify(&text)? {
        println!("{:.3}  {}", label.score, label.label);
    }
    Ok(())
}
