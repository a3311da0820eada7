//! What a report says, in words.

use super::{Training, brief};
use crate::bands::Change;
use crate::language::{Catalogue, Language};
use rope::{Axes, Pairing, Rope, Schedule};

/// What `rope` says of configurations.
const NOTES: Catalogue = Catalogue::new(include_str!("notes.zh.tsv"));

/// What `rope` says of a configuration: a warning, or what a model has instead of rotary embedding.
pub(super) fn note(language: Language, note: &str) -> String {
    match language {
        Language::English => note.to_string(),
        Language::Chinese => NOTES.say(note),
    }
}

pub(super) fn pairing(language: Language, pairing: Option<Pairing>) -> &'static str {
    match pairing {
        Some(Pairing::Interleaved) => language.of(
            "interleaved: features 2j and 2j+1 turn together",
            "interleaved：第 2j 维与第 2j+1 维一起旋转",
        ),
        Some(Pairing::Half) => {
            language.of("half: features j and j + d/2 turn together", "half：第 j 维与第 j + d/2 维一起旋转")
        }
        Some(Pairing::InterleavedToHalf) => language.of(
            "interleaved_to_half: reads 2j and 2j+1, writes j and j + d/2",
            "interleaved_to_half：读第 2j 维与第 2j+1 维，写到第 j 维与第 j + d/2 维",
        ),
        None => language.of("unknown", "未知"),
    }
}

pub(super) fn head(language: Language, rope: &Rope) -> String {
    let (dim, rotary, pairs) = (rope.head_dim(), rope.rotary_dim(), rope.pairs());
    let part = match dim == rotary {
        true => language.of("all of them turn".to_string(), "全部旋转".to_string()),
        false => language.of(format!("the first {rotary} turn"), format!("前 {rotary} 维旋转")),
    };
    let axes = match rope.axes() {
        Axes::One => String::new(),
        Axes::Sections(sections) => language.of(
            format!("; axes of a position in sections {sections:?}"),
            format!("；位置的各轴分段排列 {sections:?}"),
        ),
        Axes::Interleaved(sections) => language.of(
            format!("; axes of a position interleaved, {sections:?}"),
            format!("；位置的各轴交错排列 {sections:?}"),
        ),
        Axes::Axial { axes } => language.of(
            format!("; {axes} axes with frequencies of their own"),
            format!("；{axes} 个轴各有自己的频率"),
        ),
    };
    language.of(
        format!("{dim} features, {part}: {pairs} pairs{axes}"),
        format!("{dim} 维，{part}：{pairs} 对{axes}"),
    )
}

pub(super) fn rule(language: Language, schedule: &Schedule) -> String {
    let by_turns = |many: f64, length: u64, few: f64, factor: f64| {
        language.of(
            format!("pairs with {many} turns or more within {length} kept, with {few} or fewer divided by {factor}"),
            format!("在 {length} 个 token 内转 {many} 圈以上的维度对不变，不足 {few} 圈的频率除以 {factor}"),
        )
    };
    let words = match schedule {
        Schedule::Default => {
            language.of("θ_j = base^(−2j/d), at every length", "θ_j = base^(−2j/d)，与长度无关").to_string()
        }
        Schedule::Linear { factor } => {
            language.of(format!("every position divided by {factor}"), format!("所有位置除以 {factor}"))
        }
        Schedule::NtkAware { factor } => language.of(
            format!("a larger base: the slowest pair {factor} times slower"),
            format!("增大底数：最慢的一对慢 {factor} 倍"),
        ),
        Schedule::DynamicNtk { factor, trained_length } => language.of(
            format!("beyond {trained_length} tokens the base grows with the length (factor {factor})"),
            format!("超过 {trained_length} 个 token 后，底数随长度增大（系数 {factor}）"),
        ),
        Schedule::Yarn(yarn) => by_turns(yarn.beta_fast, yarn.original_length, yarn.beta_slow, yarn.factor),
        Schedule::LongRope(long) => language.of(
            format!(
                "a divisor of its own for each pair; another list beyond {} tokens",
                long.original_length
            ),
            format!("每对维度各有一个除数；超过 {} 个 token 后换另一组", long.original_length),
        ),
        Schedule::Llama3(llama) => {
            by_turns(llama.high_freq_factor, llama.original_length, llama.low_freq_factor, llama.factor)
        }
        Schedule::Proportional { fraction, factor } => {
            let percent = fraction * 100.0;
            language.of(
                format!("the fastest {percent:.0} % of the pairs turn, divided by {factor}; the others stand still"),
                format!("只有最快的 {percent:.0} % 的维度对旋转，频率除以 {factor}；其余不动"),
            )
        }
        Schedule::ReceptiveField { alpha, rho } => {
            let rest = brief(1.0 - alpha);
            language.of(
                format!("{alpha}·10000^(−{rho}) + {rest}·θ_j: one frequency that all pairs share, mixed with their own"),
                format!("{alpha}·10000^(−{rho}) + {rest}·θ_j：所有维度对共有的一个频率，与各自的频率混合"),
            )
        }
        other => other.to_string(),
    };
    format!("{}{}{words}", schedule.name(), language.of(": ", "："))
}

/// What a rule does to a band.
pub(super) fn change(language: Language, change: Change) -> String {
    match change {
        Change::Kept => language.of("nothing", "不变").to_string(),
        Change::Slowed(factor) if factor < 1.0 => {
            let factor = brief(1.0 / factor);
            language.of(format!("{factor} times faster"), format!("快 {factor} 倍"))
        }
        Change::Slowed(factor) => {
            let factor = brief(factor);
            language.of(format!("{factor} times slower"), format!("慢 {factor} 倍"))
        }
        Change::Blended { from, to } => {
            let (from, to) = (brief(from), brief(to));
            language.of(format!("{from} to {to} times slower"), format!("慢 {from} 到 {to} 倍"))
        }
        Change::Still => language.of("stand still", "不动").to_string(),
    }
}

/// All that is known of a length and of training, in sentences.
pub(super) fn findings(language: Language, training: &Training, rope: &Rope, length: u64) -> Vec<String> {
    let Training { length: trained, never_turned, negative, searched, single_precision_error: error, .. } =
        training;
    let (pairs, last) = (rope.pairs(), length.saturating_sub(1));
    let mut findings = vec![
        language.of(
            format!(
                "{never_turned} of {pairs} pairs never completed a turn within the {trained} tokens of training: beyond that, without a \
                 rule, they would reach angles that the model has not seen"
            ),
            format!(
                "{never_turned} 对维度（共 {pairs} 对）在训练的 {trained} 个 token 内没有转满一圈：超出之后若没有外推规则，就会转到模型没见过的角度"
            ),
        ),
        match negative {
            Some(distance) => language.of(
                format!(
                    "the sum of all cosines turns negative at distance {distance}: beyond it, a key like the query can score below an unlike one"
                ),
                format!(
                    "余弦之和在相对距离 {distance} 处首次变负：更远处，与 query 相同的 key 得分可能反而低于不相干的 key"
                ),
            ),
            None => language.of(
                format!("the sum of all cosines stays positive up to distance {searched}"),
                format!("余弦之和直到相对距离 {searched} 都为正"),
            ),
        },
        language.of(
            format!(
                "angles formed in f32, as transformers forms them, are off by up to {error:.1e} rad at \
                 position {last}; the tables here by 3e-8 at every position"
            ),
            format!(
                "像 transformers 那样用 f32 计算角度，在位置 {last} 处误差可达 {error:.1e} rad；这里的表在任何位置误差都不超过 3e-8"
            ),
        ),
    ];
    if length > 256 {
        findings.push(
            language
                .of("positions kept in bf16 cannot tell 256 from 257", "用 bf16 保存的位置分不清 256 和 257")
                .to_string(),
        );
    }
    match rope.schedule() {
        Schedule::DynamicNtk { trained_length, .. } => findings.push(language.of(
            format!(
                "beyond {trained_length} tokens every new token changes all frequencies: cached keys must be moved along \
                 (`Rope::rerotation`) or kept unrotated"
            ),
            format!(
                "超过 {trained_length} 个 token 后，每多一个 token 所有频率都会变：缓存的 key 必须跟着重新旋转（`Rope::rerotation`），或者不旋转就缓存"
            ),
        )),
        Schedule::LongRope(long) => findings.push(language.of(
            format!(
                "crossing {} tokens changes all frequencies at once: cached keys must be moved along \
                 (`Rope::rerotation`) or computed again",
                long.original_length
            ),
            format!(
                "超过 {} 个 token 的那一刻所有频率同时改变：缓存的 key 必须跟着重新旋转（`Rope::rerotation`），或者重新计算",
                long.original_length
            ),
        )),
        _ => {}
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::config::Encoding;
    use std::fs;

    /// The sentences that `rope` warns with, as its files have them, with `1` in each place.
    fn warnings() -> Vec<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../rope/src/config");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
        let mut found = Vec::new();
        for file in files {
            let text = fs::read_to_string(file).unwrap();
            for after in text.split(".warn(").skip(1) {
                let Some((_, literal)) = after.split_once('"') else { continue };
                let (mut sentence, mut depth, mut letters) = (String::new(), 0, literal.chars());
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        '\\' => match letters.next().unwrap() {
                            // A line that goes on.
                            '\n' => letters = letters.as_str().trim_start().chars(),
                            other => sentence.push(other),
                        },
                        '{' => depth += 1,
                        '}' => {
                            depth -= 1;
                            sentence.push('1');
                        }
                        _ if depth > 0 => {}
                        other => sentence.push(other),
                    }
                }
                found.push(sentence);
            }
        }
        found
    }

    #[test]
    fn every_note_is_in_chinese_with_the_same_places() {
        let warnings = warnings();
        assert!(warnings.len() > 35, "{warnings:#?}");
        let encodings = [
            Encoding::Rotary,
            Encoding::Learned,
            Encoding::Sinusoidal,
            Encoding::Alibi,
            Encoding::Bias,
            Encoding::Relative,
            Encoding::None,
            Encoding::Axes,
            Encoding::Unread,
            Encoding::Other,
            Encoding::Named("1".into()),
        ];
        let all = warnings.into_iter().chain(encodings.iter().map(Encoding::to_string));
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
        let missing: Vec<String> = all
            .filter(|note| NOTES.find(note).is_none_or(|chinese| digits(&chinese) < digits(note)))
            .collect();
        assert!(missing.is_empty(), "not in notes.zh.tsv, or without a place: {missing:#?}");
    }
}
