//! The part of a text that answers a question: `cargo run --release -p roformer --example answer`

use roformer::Pipeline;

fn main() -> roformer::Result<()> {
    let model = std::env::args().nth(1).unwrap_or("examples/models/tiny-qa".into());
    let roformer = Pipeline::load(&model)?;
    let answer = roformer.answer("小明住在哪里？", "小明住在北京。小红住在上海。")?;
    println!("{} ({:.3})", answer.text, answer.score);
    Ok(())
}
