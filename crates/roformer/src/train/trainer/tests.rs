//! Several processes, here threads: what each has of the optimiser.

use super::super::team::{Guest, Place, part};
use super::*;
use std::net::TcpListener;

/// More parameters than four times a block of the norm's sum, and tensors that cross from one part to the next.
fn trainer() -> Trainer {
    let sizes = Settings { layers: 2, width: 48, heads: 2, block: 16, batch: 2, ..Settings::default() };
    let settings = Settings { accumulate: 4, warmup: 1, steps: 9, clip: 0.1, ..sizes };
    Trainer::new(&settings, Data::from_text(&"each has the moments of its part. ".repeat(30)).unwrap())
        .unwrap()
}

fn bits(trainer: &Trainer) -> Vec<u32> {
    let mut bits = Vec::new();
    let add = |numbers: &[f32]| {
        bits.extend(numbers.iter().map(|number| number.to_bits()));
        Ok(())
    };
    trainer.hand_over(add).unwrap();
    bits
}

/// Takes steps as processes of these numbers one after the other, each from the checkpoint of the one before.
#[test]
fn each_process_has_the_moments_of_its_part_and_together_they_are_those_of_one() {
    let mut alone = trainer();
    let len = alone.layout().len();
    assert!(len > 5 * 4096, "{len}");
    // What the last team handed over.
    let mut kept = bits(&alone);
    for world in [4, 2, 3, 5] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |rank| Place { rank, world, local: world, address: "127.0.0.1".into(), port };
        let mut leader = trainer();
        let place = |buffer: &str, name: &str| {
            let before = BUFFERS.iter().position(|known| *known == buffer).unwrap() * len;
            let entries = alone.layout().entries();
            before + entries.iter().find(|entry| entry.name == name).unwrap().range.start
        };
        let restored = leader.restore(alone.steps(), |buffer, name, _, out| {
            let from = kept[place(buffer, name)..].iter();
            out.iter_mut().zip(from).for_each(|(out, bits)| *out = f32::from_bits(*bits));
            Ok(())
        });
        restored.unwrap();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..world)
                .map(|rank| {
                    let place = at(rank);
                    scope.spawn(move || {
                        let mut helper = trainer();
                        let team = Guest::come(&place, &[], || {}).unwrap().enter(helper.terms()).unwrap();
                        assert_eq!(helper.help(team).unwrap(), 3);
                        helper
                    })
                })
                .collect();
            leader.gather(Meeting::open(&at(0), &[]).unwrap()).unwrap();
            for _ in 0..2 {
                let (found, wanted) = (leader.step().unwrap(), alone.step().unwrap());
                assert_eq!(
                    (found.loss.to_bits(), found.norm.to_bits()),
                    (wanted.loss.to_bits(), wanted.norm.to_bits())
                );
                // Steps are clipped, so that a norm with other bits would show.
                assert!(found.norm > 0.1);
            }
            kept = bits(&leader);
            assert!(kept == bits(&alone), "on {world}");
            leader.dismiss(3);
            let others = others.into_iter().map(|other| other.join().unwrap());
            let [mut first, mut second] = alone.learner.moments();
            for (rank, helper) in std::iter::once(leader).chain(others).enumerate() {
                let own = part(len, rank, world).len();
                let (ours, theirs);
                ((ours, first), (theirs, second)) = (first.split_at(own), second.split_at(own));
                assert_eq!(helper.learner.moments(), [ours, theirs], "rank {rank} of {world}");
                assert_eq!(helper.parameters(), alone.parameters(), "rank {rank} of {world}");
            }
        });
    }
    assert_eq!(alone.steps(), 8);
}
