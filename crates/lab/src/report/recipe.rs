//! How models are trained, in words: for the report, and for what a plan says of itself before it begins.

use super::tables::number_whole;
use crate::chart::number;
use crate::training::{Decay, Training};
use roformer::language::Language;

/// The schedule of the rate, the optimiser, and what else is at work in training.
pub fn recipe(language: Language, training: &Training) -> String {
    let Training { beta1, beta2, epsilon, weight_decay, clip, .. } = *training;
    let percent = number((1000.0 * training.warmup).round() / 10.0);
    let (english, chinese) = match training.decay {
        Decay::Cosine => ("with half a cosine", "按半个余弦"),
        Decay::Linear => ("in a straight line", "沿直线"),
    };
    let end = number(training.lowest);
    let end = match training.lowest == 0.0 {
        true => language.of("to 0".into(), "降到 0".into()),
        false => language.of(format!("to {end} of it"), format!("降到最高值的 {end}")),
    };
    let mut parts = vec![
        language.of(
            format!("the rate rises for {percent} % of the steps and falls {english} {end}"),
            format!("学习率在前 {percent} % 的步内上升，然后{chinese}{end}"),
        ),
        language.of(
            format!("AdamW with β {beta1} and {beta2}, ε {epsilon:e}, weight decay {weight_decay}, gradients up to the norm {clip}"),
            format!("AdamW，β 为 {beta1} 和 {beta2}，ε 为 {epsilon}，权重衰减 {weight_decay}，梯度范数至多 {clip}"),
        ),
    ];
    let mut add = |english: String, chinese: String| parts.push(language.of(english, chinese));
    if training.parts > 1 {
        let parts = training.parts;
        add(format!("a step in {parts} parts"), format!("每步分 {parts} 份"));
    }
    if training.dropout > 0.0 {
        let dropout = training.dropout;
        add(format!("dropout {dropout}"), format!("dropout 为 {dropout}"));
    }
    if let Some(pool) = training.pool {
        let pool = number_whole(pool as u64);
        add(
            format!("{pool} examples to train on, the same for every seed"),
            format!("训练样例共 {pool} 个，各种子相同"),
        );
    }
    parts.join(language.of("; ", "；"))
}
