//! M-RoPE as in Qwen2-VL: a position is time, height and width, and every pair of features follows one of them.
//!
//! A text of four tokens, an image of 2 × 3 patches, a text of three. In text the three numbers are equal, which makes
//! it plain RoPE; the patches of an image share their time and differ in height and width.
//!
//! `cargo run --release -p rope --example mrope`

use rope::{Axes, Positions, Rope, Turn, ViewMut, image_grid};

const SECTIONS: [usize; 3] = [16, 24, 24];
const HEAD_DIM: usize = 128;
const BEFORE: usize = 4;
const HEIGHT: usize = 2;
const WIDTH: usize = 3;
const AFTER: usize = 3;

fn main() -> rope::Result<()> {
    let text = |start: usize, count: usize| (start..start + count).map(|position| [position as f64; 3]);
    let grid = image_grid(HEIGHT, WIDTH)?;
    let (rows, columns) = grid.split_at(HEIGHT * WIDTH);
    let start = BEFORE as f64;
    let image = rows.iter().zip(columns).map(|(row, column)| [start, start + row, start + column]);
    // Text goes on after the largest position of the image.
    let after = text(BEFORE + HEIGHT.max(WIDTH), AFTER);
    let tokens: Vec<[f64; 3]> = text(0, BEFORE).chain(image).chain(after).collect();
    // Tables take all times, then all heights, then all widths.
    let axes = [0, 1, 2].map(|axis| tokens.iter().map(|token| token[axis]).collect::<Vec<f64>>());
    for (name, axis) in ["time", "height", "width"].iter().zip(&axes) {
        println!("{name:<7} {axis:?}");
    }

    let builder = Rope::builder(HEAD_DIM).base(1_000_000.0);
    let plain = builder.clone().build()?;
    let rope = builder.axes(Axes::Sections(SECTIONS.into())).build()?;
    let table = rope.table_of::<f32>(&axes.concat(), None)?;
    println!("{table}");

    // The same vector at every token, so that what differs is the position.
    let count = tokens.len();
    let mut x = vec![1.0f32; count * HEAD_DIM];
    let mut view = ViewMut::blhd(&mut x, [1, count, 1, HEAD_DIM])?;
    table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
    let token = |index: usize| &x[index * HEAD_DIM..][..HEAD_DIM];

    // In which sections two tokens agree. Pair j is features j and j + 64.
    let same = |a: usize, b: usize| {
        let mut start = 0;
        SECTIONS.map(|section| {
            let pairs = start..start + section;
            start += section;
            pairs.clone().all(|j| token(a)[j] == token(b)[j] && token(a)[j + 64] == token(b)[j + 64])
        })
    };
    let patch = |row: usize, column: usize| BEFORE + row * WIDTH + column;
    println!("do two tokens agree in [time, height, width]?");
    for (name, a, b, agree) in [
        ("patches of one row", patch(1, 0), patch(1, 2), [true, true, false]),
        ("patches of one column", patch(0, 1), patch(1, 1), [true, false, true]),
        ("patches across", patch(0, 0), patch(1, 2), [true, false, false]),
        ("two words", 0, count - 1, [false, false, false]),
    ] {
        println!("  {name:<22} {:?}", same(a, b));
        assert_eq!(same(a, b), agree);
    }

    // Text alone: the bits of plain RoPE.
    let words: Vec<usize> = (0..BEFORE).chain(count - AFTER..count).collect();
    let line = plain.table::<f32>(0..16, None)?;
    for &word in &words {
        let mut y = vec![1.0f32; HEAD_DIM];
        let mut view = ViewMut::blhd(&mut y, [1, 1, 1, HEAD_DIM])?;
        line.at(Positions::From(tokens[word][0] as i64))?.rotate(Turn::Forward, &mut view)?;
        assert_eq!(token(word), y);
    }
    println!("the {} words have the bits of plain RoPE at their positions", words.len());
    Ok(())
}
