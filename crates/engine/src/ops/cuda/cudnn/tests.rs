//! What can be known of cuDNN's graphs without a GPU: that the library takes them.

use super::*;

#[test]
fn the_library_takes_every_graph() {
    // cuDNN ends the process where it looks for cuBLASLt in vain.
    let library = Some(()).filter(|()| super::super::library::is_there()).and_then(|()| Library::find_any());
    let Some(library) = library.map(Arc::new) else { return println!("skipped: no cuDNN, or no cuBLASLt") };
    let plain = Shape {
        batch: 2,
        length: 200,
        heads: 4,
        key_heads: 4,
        head_dim: 64,
        is_causal: false,
        window: None,
        scale: 0.125f32.to_bits(),
        is_padded: false,
        is_ordered: true,
    };
    for (key_heads, head_dim) in [(4, 64), (2, 128), (1, 8)] {
        for (is_causal, window) in [(false, None), (true, None), (false, Some(50)), (true, Some(1))] {
            for (is_padded, is_ordered) in [(false, true), (true, true), (true, false)] {
                let shape = Shape { key_heads, head_dim, is_causal, window, is_padded, is_ordered, ..plain };
                for way in [attention::forward, attention::backward] {
                    let mut graph = Graph::new(&library);
                    way(&mut graph, &shape).and_then(|()| graph.check()).unwrap();
                }
            }
        }
    }
}
