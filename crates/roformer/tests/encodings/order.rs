//! Without positions attention sees a set; with any, a sequence.

use super::net::{NONE, error, hidden, lay, mean, network};
use roformer::encoding::{Encoding, Rotary};
use roformer::graph::Batch;
use roformer::network::{Mixing, Network};

/// What two layers give for a text.
fn read(network: &Network, ids: &[u32]) -> Vec<f64> {
    let mut laid = lay(&network.with(|own| own.layers = 2), 1, ids.len(), 8);
    let batch = Batch { ids: ids.to_vec(), targets: vec![0; ids.len()], ..Batch::default() };
    hidden(&mut laid, &batch)
}

/// How far apart the means of two texts are.
fn apart(network: &Network, first: &[u32], second: &[u32]) -> f64 {
    let [first, second] = [first, second].map(|ids| mean(&read(network, ids), network.blueprint.width));
    error(&first, &second)
}

#[test]
fn without_an_encoding_order_is_not_seen() {
    for mixing in [Mixing::Softmax, Mixing::Linear(Default::default())] {
        let network = network(NONE, false).with(|own| own.mixing = mixing);
        let (ids, order) = ([4u32, 1, 7, 7, 9, 2], [3usize, 0, 5, 1, 4, 2]);
        let plain = read(&network, &ids);
        let shuffled = read(&network, &order.map(|index| ids[index]));
        let wanted: Vec<f64> = order
            .iter()
            .flat_map(|&index| plain[index * network.blueprint.width..][..network.blueprint.width].to_vec())
            .collect();
        assert!(error(&shuffled, &wanted) < 1e-12);
        assert!(error(&shuffled, &plain) > 1e-3);
    }
}

/// 我爱你 and 你爱我: two sentences of the same words.
#[test]
fn order_is_seen_by_every_encoding_or_a_causal_mask() {
    let (first, second) = ([1, 2, 3], [3, 2, 1]);
    for encoding in Encoding::all() {
        let name = encoding.name();
        let causal = network(encoding.clone(), true);
        let far = apart(&causal, &first, &second);
        println!("{name}: {far:.1e} apart with a causal mask");
        assert!(far > 1e-6, "{name}, causal: {far:.1e}");
        if encoding.is_causal_only() {
            continue;
        }
        let all = network(encoding, false);
        let far = apart(&all, &first, &second);
        println!("{name}: {far:.1e} apart without");
        match name {
            // Without digits there are no places.
            "none" | "abacus" | "coupled" => assert!(far < 1e-12, "{name}: {far:.1e}"),
            // They know how far apart two tokens are, and not which comes first: a sentence is its own reversal, and any
            // other order is not.
            "alibi" | "kerple" | "sandwich" => {
                assert!(far < 1e-12, "{far:.1e}");
                assert!(apart(&all, &[1, 2, 3, 4], &[4, 3, 2, 1]) < 1e-12);
                assert!(apart(&all, &[1, 2, 3, 4], &[2, 1, 3, 4]) > 1e-6);
            }
            _ => assert!(far > 1e-6, "{name}: {far:.1e}"),
        }
    }
}

/// A rotation says distances alone: a text moved as a whole stays what it is; not so with values that turn.
#[test]
fn softmax_with_rotary_sees_distances_alone() {
    for (values, is_same) in [(false, true), (true, false)] {
        let rotary = Rotary { values, ..Rotary::default() };
        let network = network(Encoding::Rotary(rotary), false);
        let mut laid = lay(&network, 1, 6, 20);
        let at = |first: u32| Batch {
            positions: (first..first + 6).collect(),
            ids: vec![4, 1, 7, 7, 9, 2],
            targets: vec![0; 6],
            ..Batch::default()
        };
        let far = error(&hidden(&mut laid, &at(5)), &hidden(&mut laid, &at(0)));
        assert!(if is_same { far < 1e-12 } else { far > 1e-3 }, "{far:.1e}");
    }
}
