//! What each rule would do to a model at a longer context, and the settings that ask for it.

use crate::bands::{Seen, slowdown};
use crate::language::Language;
use rope::{Frequencies, Result, Rope, Schedule, Yarn};
use serde::Serialize;
use serde_json::{Value, json};

/// What a rule would do at a context length.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The rule's name as people say it.
    pub name: &'static str,
    /// The rope under that rule.
    #[serde(skip)]
    pub rope: Rope,
    /// Its frequencies at that length.
    #[serde(skip)]
    pub frequencies: Frequencies,
    /// By how much each pair is slowed, θ/θ′. `[pairs]`
    #[serde(skip)]
    pub slowdown: Vec<f64>,
    /// Pairs whose angles go beyond all that were seen in training: pairs that never completed a turn then and now reach
    /// further. A model cannot know what those angles mean.
    pub unseen: usize,
    /// Pairs that turn as before.
    pub kept: usize,
    /// How much closer two neighbouring tokens come, at the fastest pair that turns: 1 is as before.
    pub crowding: f64,
    /// The scale of rotated vectors.
    pub attention_factor: f64,
}

impl Candidate {
    /// What a rope does at `context` tokens to a model that has `seen` some angles.
    pub fn new(name: &'static str, rope: Rope, seen: &Seen, context: u64) -> Candidate {
        let frequencies = rope.frequencies(context);
        let unseen = seen.unseen(frequencies.inv_freq(), context);
        let slowdown = slowdown(&rope, &frequencies);
        Candidate {
            name,
            unseen,
            kept: slowdown.iter().filter(|&&factor| (factor - 1.0).abs() < 1e-9).count(),
            crowding: slowdown.first().copied().unwrap_or(1.0),
            attention_factor: frequencies.attention_factor(),
            rope,
            frequencies,
            slowdown,
        }
    }
}

/// A setting to paste.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The program it is for.
    pub tool: &'static str,
    /// What to paste.
    pub text: String,
    /// Why.
    pub reason: String,
}

/// Advice for one rope at one context length.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The length the frequencies were trained at.
    pub trained: u64,
    /// The length asked for.
    pub context: u64,
    /// The model's own rule first.
    pub candidates: Vec<Candidate>,
    /// In one sentence.
    pub verdict: String,
    /// Empty where nothing needs to be set.
    pub settings: Vec<Setting>,
}

/// What each rule does at `context` tokens to a rope that has `seen` some angles and is said to take `longest` tokens.
/// With a layer type, settings are for the layers of that type.
pub fn advise(
    rope: &Rope,
    layer_type: Option<&str>,
    seen: &Seen,
    longest: Option<u64>,
    context: u64,
) -> Advice {
    advise_in(Language::English, rope, layer_type, seen, longest, context)
}

/// The same, its sentences in this language.
pub(crate) fn advise_in(
    language: Language,
    rope: &Rope,
    layer_type: Option<&str>,
    seen: &Seen,
    longest: Option<u64>,
    context: u64,
) -> Advice {
    let trained = seen.length;
    let factor = context as f64 / trained as f64;
    let own =
        Candidate::new(language.of("the model's own rule", "模型自身的规则"), rope.clone(), seen, context);
    let mut candidates = vec![own];
    if context > trained {
        for (name, schedule) in rivals(language, rope, trained, factor) {
            // Rules that cannot be applied to this base or dimension are left out.
            if let Ok(rope) = with_schedule(rope, schedule) {
                candidates.push(Candidate::new(name, rope, seen, context));
            }
        }
    }
    let (verdict, stretch) = verdict(language, rope, &candidates[0], trained, longest, context);
    let settings =
        stretch.map_or(Vec::new(), |stretch| settings(language, rope.base(), layer_type, context, stretch));
    Advice { trained, context, candidates, verdict, settings }
}

/// The rules that could take the place of a rope's own, for a stretch by `factor` from `trained` tokens.
fn rivals(language: Language, rope: &Rope, trained: u64, factor: f64) -> Vec<(&'static str, Schedule)> {
    let linear = language.of("linear", "线性内插");
    match rope.schedule() {
        Schedule::Default
        | Schedule::DynamicNtk { .. }
        | Schedule::Yarn(_)
        | Schedule::LongRope(_)
        | Schedule::Llama3(_) => vec![
            (linear, Schedule::Linear { factor }),
            ("NTK-aware", Schedule::NtkAware { factor }),
            ("YaRN", Schedule::Yarn(Yarn::new(factor, trained))),
            (
                language.of("dynamic NTK", "动态 NTK"),
                Schedule::DynamicNtk { factor: 1.0, trained_length: trained },
            ),
        ],
        // On top of a stretch that training has seen, only more of the same is one rule.
        Schedule::Linear { factor: own } => vec![(linear, Schedule::Linear { factor: own * factor })],
        _ => Vec::new(),
    }
}

fn with_schedule(rope: &Rope, schedule: Schedule) -> Result<Rope> {
    Rope::builder(rope.head_dim())
        .rotary_dim(rope.rotary_dim())
        .rotary_offset(rope.rotary_offset())
        .base(rope.base())
        .pairing(rope.pairing())
        .schedule(schedule)
        .build()
}

/// A rule that reaches further, ready to be written down.
struct Stretch {
    /// The rope dictionary.
    parameters: Value,
    /// The flags of llama.cpp, or why there are none.
    llama_cpp: std::result::Result<String, &'static str>,
    reason: &'static str,
}

fn verdict(
    language: Language,
    rope: &Rope,
    own: &Candidate,
    trained: u64,
    longest: Option<u64>,
    context: u64,
) -> (String, Option<Stretch>) {
    if context <= trained {
        let verdict = language.of(
            format!("{context} is within the {trained} tokens of training: nothing to set"),
            format!("{context} 没有超过训练的 {trained} 个 token：无需设置"),
        );
        return (verdict, None);
    }
    if let Some(longest) = longest.filter(|&longest| context <= longest) {
        let rule = rope.schedule();
        let verdict = language.of(
            format!("the file says the model takes {longest}: use its own rule ({rule}) as it is"),
            format!("文件说明模型可以接受 {longest} 个 token：照原样使用它自身的规则（{}）", named(rule)),
        );
        return (verdict, None);
    }
    if own.unseen == 0 {
        let verdict = language.of(
            "its own rule reaches no angle that training has not seen: nothing to set",
            "它自身的规则不会转到训练时没见过的角度：无需设置",
        );
        return (verdict.into(), None);
    }
    // From the length of training, and by how much the model's own stretch falls short.
    let factor = context as f64 / trained as f64;
    let more = context as f64 / longest.unwrap_or(trained) as f64;
    match rope.schedule() {
        Schedule::Default => (
            language.of(
                format!(
                    "YaRN with factor {factor}: the pairs that turn often keep their resolution, the slow ones stay \
                     within the angles seen in training"
                ),
                format!(
                    "用系数为 {factor} 的 YaRN：转得快的维度对保持分辨率，转得慢的不超出训练时见过的角度"
                ),
            ),
            Some(Stretch {
                parameters: yarn_json(rope.base(), factor, trained),
                llama_cpp: Ok(format!("--rope-scaling yarn --rope-scale {factor} --yarn-orig-ctx {trained}")),
                reason: language.of(
                    "linear crowds all neighbours, NTK-aware leaves slow pairs beyond what was seen",
                    "线性内插使所有相邻 token 变得拥挤，NTK-aware 仍会让慢的维度对转到没见过的角度",
                ),
            }),
        ),
        Schedule::Yarn(yarn) => {
            let original = yarn.original_length;
            let factor = context as f64 / original as f64;
            let stretch = Stretch {
                parameters: yarn_json(rope.base(), factor, original),
                llama_cpp: Ok(format!(
                    "--rope-scaling yarn --rope-scale {factor} --yarn-orig-ctx {original}"
                )),
                reason: language.of(
                    "the rule is the model's own; its factor is the target length over the original one",
                    "规则是模型自身的；系数是目标长度与原始长度之比",
                ),
            };
            let verdict = language.of(
                format!("raise the YaRN factor from {} to {factor}", yarn.factor),
                format!("把 YaRN 的系数从 {} 提高到 {factor}", yarn.factor),
            );
            (verdict, Some(stretch))
        }
        Schedule::Linear { factor } => {
            let raised = factor * more;
            let stretch = Stretch {
                parameters: json!({ "rope_type": "linear", "rope_theta": rope.base(), "factor": raised }),
                llama_cpp: Ok(format!("--rope-scaling linear --rope-scale {raised}")),
                reason: language.of(
                    "another rule would replace the stretch that the weights were trained with",
                    "换成别的规则，会取代权重训练时所用的拉伸",
                ),
            };
            let verdict = language.of(
                format!("raise the linear factor from {factor} to {raised}, and expect to fine-tune"),
                format!("把线性内插的系数从 {factor} 提高到 {raised}，并准备微调"),
            );
            (verdict, Some(stretch))
        }
        Schedule::Llama3(llama) => {
            let raised = llama.factor * more;
            let stretch = Stretch {
                parameters: json!({
                    "rope_type": "llama3", "rope_theta": rope.base(), "factor": raised,
                    "low_freq_factor": llama.low_freq_factor, "high_freq_factor": llama.high_freq_factor,
                    "original_max_position_embeddings": llama.original_length,
                }),
                llama_cpp: Err(language.of(
                    "its converter bakes the llama3 rule into the tensor rope_freqs; no flag changes it",
                    "它的转换程序把 llama3 规则写进张量 rope_freqs，没有参数可以改变",
                )),
                reason: language.of(
                    "YaRN would replace the rule that the weights were trained with",
                    "YaRN 会取代权重训练时所用的规则",
                ),
            };
            let verdict = language.of(
                format!(
                    "raise the llama3 factor from {} to {raised}, and expect to fine-tune: the weights know the slow pairs \
                     at the old one",
                    llama.factor
                ),
                format!(
                    "把 llama3 的系数从 {} 提高到 {raised}，并准备微调：权重只认识旧系数下的慢维度对",
                    llama.factor
                ),
            );
            (verdict, Some(stretch))
        }
        Schedule::DynamicNtk { .. } => {
            let verdict = language.of(
                "the dynamic rule stretches by itself beyond its trained length: nothing to set",
                "动态规则超过训练长度后会自行拉伸：无需设置",
            );
            (verdict.into(), None)
        }
        Schedule::LongRope(_) => {
            let most = longest.unwrap_or(trained);
            let verdict = language.of(
                format!(
                    "the LongRoPE divisors were searched for at most {most} tokens: beyond that there is no list to use, and \
                     another rule would replace frequencies that the weights were tuned to"
                ),
                format!(
                    "LongRoPE 的除数最多按 {most} 个 token 搜索得到：再长就没有可用的一组，换成别的规则又会取代权重已适应的频率"
                ),
            );
            (verdict, None)
        }
        other => {
            let name = other.name();
            let verdict = language.of(
                format!("no common setting stretches the rule {name} further"),
                format!("没有通用的设置能把规则 {name} 拉得更长"),
            );
            (verdict, None)
        }
    }
}

/// A rule with its numbers, as its `Display` has them.
fn named(rule: &Schedule) -> String {
    let name = rule.name();
    match rule {
        Schedule::Linear { factor } | Schedule::NtkAware { factor } => format!("{name}，系数 {factor}"),
        Schedule::DynamicNtk { factor, trained_length } => {
            format!("{name}，系数 {factor}，超过 {trained_length} 起")
        }
        Schedule::Yarn(yarn) => format!("{name}，系数 {}，原始长度 {}", yarn.factor, yarn.original_length),
        Schedule::LongRope(long) => format!("{name}，原始长度 {}", long.original_length),
        Schedule::Llama3(llama) => {
            format!("{name}，系数 {}，原始长度 {}", llama.factor, llama.original_length)
        }
        Schedule::Proportional { fraction, factor } => format!("{name}，比例 {fraction}，系数 {factor}"),
        other => other.to_string(),
    }
}

/// The same stretch for each program.
fn settings(
    language: Language,
    base: f64,
    layer_type: Option<&str>,
    context: u64,
    stretch: Stretch,
) -> Vec<Setting> {
    let Stretch { parameters, llama_cpp, reason } = stretch;
    let nested = match layer_type {
        Some(name) => json!({ name: parameters }),
        None => parameters.clone(),
    };
    let file = json!({ "max_position_embeddings": context, "rope_parameters": nested });
    let mut settings = vec![Setting {
        tool: language.of(
            "Hugging Face transformers 5, in config.json",
            "Hugging Face transformers 5，写在 config.json 中",
        ),
        text: entries(&file),
        reason: reason.to_string(),
    }];
    if layer_type.is_some() {
        settings[0].reason += language.of(
            "; keep the entries of the other layer types beside it",
            "；保留其他类型的层的条目，与它并列",
        );
        return settings;
    }
    settings.push(Setting {
        tool: language.of(
            "Hugging Face transformers 4, in config.json",
            "Hugging Face transformers 4，写在 config.json 中",
        ),
        text: entries(&older(&file, base)),
        reason: language
            .of(
                "the same rule under its older names; rope_theta stands outside the dictionary",
                "同一规则的旧写法；rope_theta 写在字典之外",
            )
            .into(),
    });
    settings.push(Setting {
        tool: "vLLM",
        text: format!("--max-model-len {context} --hf-overrides '{file}'"),
        reason: language
            .of(
                "vLLM reads the rule from the configuration; the length is a limit of its own",
                "vLLM 从配置读取规则；长度是它另有的上限",
            )
            .into(),
    });
    settings.push(match llama_cpp {
        Ok(flags) => Setting {
            tool: "llama.cpp",
            text: format!("--ctx-size {context} {flags}"),
            reason: language
                .of(
                    "its flags count from the original length; it makes YaRN's attention factor itself",
                    "它的参数从原始长度算起；YaRN 的注意力系数由它自己计算",
                )
                .into(),
        },
        Err(reason) => Setting {
            tool: "llama.cpp",
            text: language
                .of(
                    "convert the model again from the changed config.json",
                    "用改过的 config.json 重新转换模型",
                )
                .into(),
            reason: reason.into(),
        },
    });
    settings
}

fn yarn_json(base: f64, factor: f64, original: u64) -> Value {
    json!({
        "rope_type": "yarn", "rope_theta": base, "factor": factor, "original_max_position_embeddings": original,
    })
}

/// The file of version 5 under the names of version 4.
fn older(file: &Value, base: f64) -> Value {
    let mut scaling = file["rope_parameters"].clone();
    if let Some(map) = scaling.as_object_mut() {
        map.remove("rope_theta");
    }
    json!({ "max_position_embeddings": file["max_position_embeddings"], "rope_theta": base, "rope_scaling": scaling })
}

/// The entries of an object, without its braces.
fn entries(object: &Value) -> String {
    let map = object.as_object().into_iter().flatten();
    map.map(|(key, value)| format!("\"{key}\": {value}")).collect::<Vec<_>>().join(",\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::{HfConfig, HfOptions};

    #[test]
    fn linear_and_yarn_stay_within_what_was_seen_and_default_does_not() {
        let rope = Rope::builder(128).build().unwrap();
        let advice = advise(&rope, None, &Seen::new(&rope, None, Some(4096)).unwrap(), Some(4096), 32768);
        let unseen = |name: &str| advice.candidates.iter().find(|c| c.name == name).unwrap().unseen;
        assert_eq!(unseen("linear"), 0);
        assert_eq!(unseen("YaRN"), 0);
        // Pairs with a wavelength above 4096: base^(2j/128)·2π > 4096 from j = 46 on.
        assert_eq!(unseen("the model's own rule"), 18);
        assert!(unseen("NTK-aware") > 0);
        let yarn = advice.candidates.iter().find(|c| c.name == "YaRN").unwrap();
        assert_eq!(yarn.crowding, 1.0);
        let linear = advice.candidates.iter().find(|c| c.name == "linear").unwrap();
        assert!((linear.crowding - 8.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_advised_reads_back_as_what_was_meant() {
        let rope = Rope::builder(128).base(1e6).build().unwrap();
        let advice = advise(&rope, None, &Seen::new(&rope, None, Some(32768)).unwrap(), Some(32768), 131072);
        for setting in advice.settings.iter().filter(|setting| setting.tool.starts_with("Hugging Face")) {
            let fields = r#""model_type": "qwen2", "head_dim": 128"#;
            let file = format!("{{{fields}, {}}}", setting.text);
            let config = HfConfig::read(file.as_bytes(), &HfOptions::default()).unwrap();
            assert!(config.warnings.is_empty(), "{:?}", config.warnings);
            let read = config.layers[0].rope.clone().unwrap();
            assert_eq!(read.schedule(), &Schedule::Yarn(Yarn::new(4.0, 32768)));
            assert_eq!(read.base(), 1e6);
        }
    }

    #[test]
    fn nothing_is_advised_where_nothing_is_needed() {
        let rope = Rope::builder(64).build().unwrap();
        let seen = Seen::new(&rope, None, Some(2048)).unwrap();
        assert!(advise(&rope, None, &seen, Some(2048), 2048).settings.is_empty());
        assert!(advise(&rope, None, &seen, Some(8192), 8192).settings.is_empty());
        assert!(!advise(&rope, None, &seen, Some(2048), 8192).settings.is_empty());
    }
}
