//! Blueprint → `config.json`, as transformers reads it.

use super::super::{Blueprint, HeadKind, Mixing};
use super::{
    Family, bert, deberta, gemma, gpt, llama, llama4, modernbert, mpt, nomic, object, own, roformer, t5,
    xlnet,
};
use crate::encoding::{Encoding, Learned, Merge, Rotary};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};

impl Blueprint {
    /// The `config.json` of a blueprint for texts of up to `longest` tokens, as transformers reads it. `dropout` is what it is
    /// trained with; labels are the names of its classes, in order; without any they are `LABEL_0` and so on.
    ///
    /// The padding token is 0 and no token begins or ends a text; whoever knows the tokenizer replaces those (`pad_token_id`,
    /// `bos_token_id`, `eos_token_id`). [`from_config`](Blueprint::from_config) gives the same blueprint again; one that no
    /// `config.json` describes is an error.
    pub fn to_config(&self, longest: usize, dropout: f64, labels: &[String]) -> Result<Value> {
        let mut all = match self.family {
            Family::RoFormer => roformer::write(self, longest, dropout),
            family if family.is_bert() => bert::write(self, longest, dropout),
            Family::ModernBert => modernbert::write(self, longest, dropout),
            Family::NomicBert => nomic::write(self, longest, dropout),
            Family::Mpt => mpt::write(self, longest, dropout),
            Family::DebertaV2 => deberta::write(self, longest, dropout),
            Family::XlNet => xlnet::write(self, dropout),
            Family::Gpt2 | Family::GptJ | Family::GptNeoX => gpt::write(self, longest, dropout),
            Family::Gemma2 | Family::Gemma3 => gemma::write(self, longest, dropout),
            Family::Llama4 => llama4::write(self, longest, dropout),
            Family::T5 | Family::T5Decoder => t5::write(self, longest, dropout),
            Family::Plain => {
                let expected = "RoFormer's or Llama's form: transformers has no class for it";
                return Err(Error::input("the network", "PyTorch's plain encoder", expected));
            }
            _ => llama::write(self, longest, dropout),
        };
        for (part, size) in [
            ("vocabulary", self.vocabulary),
            ("width", self.width),
            ("layers", self.layers),
            ("heads", self.heads),
            ("inner width", self.wide),
        ] {
            all.insert(self.family.field(part).into(), size.into());
        }
        all.extend(object(json!({
            "model_type": self.family.model_type(),
            "architectures": [self.family.class_of(self.head)],
            "initializer_range": 0.02,
            "tie_word_embeddings": self.output.is_tied,
            "pad_token_id": self.padding.unwrap_or(0),
            "bos_token_id": null,
            "eos_token_id": null,
            "dtype": "float32",
        })));
        if matches!(self.head, HeadKind::SequenceClassification | HeadKind::TokenClassification) {
            all.extend(write_labels(self.classes(), labels)?);
        }
        own::write(self, &mut all);
        let config = Value::Object(all);
        self.check_written(&config)?;
        Ok(config)
    }

    /// Whether the encoding and the attention are those of transformers' class: RoFormer's encoding is fixed, Llama's has the
    /// fields of `rope_parameters`.
    pub fn is_of_its_class(&self) -> bool {
        self.has_own_encoding() && self.mixing == Mixing::Softmax
    }

    /// Whether the encoding is that of transformers' class.
    pub(crate) fn has_own_encoding(&self) -> bool {
        let rotary = match &self.encoding {
            Encoding::Rotary(rotary) => rotary,
            Encoding::Learned(learned) => {
                let offset = self.padding.map_or(0, |padding| padding as usize + 1);
                let is_learned =
                    self.family.is_bert() || matches!(self.family, Family::Gpt2 | Family::DebertaV2);
                return is_learned && *learned == Learned { merge: Merge::Add, offset };
            }
            Encoding::Alibi(_) => return self.family == Family::Mpt,
            Encoding::T5(t5) => {
                return matches!(self.family, Family::T5 | Family::T5Decoder) && !t5.is_scaled;
            }
            Encoding::Deberta(own) => {
                return self.family == Family::DebertaV2 && own.is_released(self.norms.epsilon);
            }
            Encoding::XlNet(_) => return self.family == Family::XlNet,
            Encoding::None(_) => return self.family == Family::DebertaV2,
            _ => return false,
        };
        match self.family {
            Family::RoFormer => *rotary == Rotary { values: rotary.values, ..Rotary::default() },
            Family::Plain | Family::Gpt2 | Family::Mpt | Family::T5 | Family::T5Decoder => false,
            family if family.is_bert() || matches!(family, Family::DebertaV2 | Family::XlNet) => false,
            family => {
                let is_partial =
                    matches!(family, Family::GptJ | Family::GptNeoX | Family::Glm4 | Family::Phi3);
                let rotary_dim = rotary.rotary_dim.filter(|_| is_partial);
                let plain = Rotary { values: false, is_learned: false, rotary_dim, ..rotary.clone() };
                rotary.pairing == family.pairing() && *rotary == plain
            }
        }
    }

    /// Checks that a configuration says all of the blueprint.
    fn check_written(&self, config: &Value) -> Result<()> {
        let read = Blueprint::from_config(config.to_string().as_bytes())?;
        // What is said elsewhere: by the caller, or by the tokenizer.
        let longest = self.encoder.as_ref().map(|encoder| encoder.longest);
        let encoder = read.encoder.map(|encoder| {
            let longest = longest.unwrap_or(encoder.longest);
            Box::new(Blueprint { longest, ..*encoder })
        });
        let (labels, ends) = (self.labels.clone(), self.ends.clone());
        let read = Blueprint { longest: self.longest, labels, ends, encoder, ..read };
        let parts = [
            ("the encoding", format!("{:?}", self.encoding), read.encoding == self.encoding),
            ("the attention", format!("{:?}", self.mixing), read.mixing == self.mixing),
            ("the width of a head", self.head_dim.to_string(), read.head_dim == self.head_dim),
            ("the number of key heads", self.key_heads.to_string(), read.key_heads == self.key_heads),
            ("the biases", format!("{:?}", self.biases), read.biases == self.biases),
            ("the norms", format!("{:?}", self.norms), read.norms == self.norms),
            ("the direction", format!("{:?}", self.direction), read.direction == self.direction),
            ("the network", format!("a {} with parts of its own", self.family.model_type()), read == *self),
        ];
        match parts.into_iter().find(|(_, _, is_same)| !is_same) {
            Some((name, value, _)) => Err(Error::input(name, value, "what a config.json can say")),
            None => Ok(()),
        }
    }
}

/// The names of classes, by number and by name.
fn write_labels(classes: usize, given: &[String]) -> Result<Map<String, Value>> {
    if !given.is_empty() && given.len() != classes {
        return Err(Error::input("the number of labels", given.len(), classes.to_string()));
    }
    let name = |class: usize| given.get(class).cloned().unwrap_or_else(|| format!("LABEL_{class}"));
    let by_number: Map<String, Value> = (0..classes).map(|i| (i.to_string(), name(i).into())).collect();
    let by_name: Map<String, Value> = (0..classes).map(|i| (name(i), i.into())).collect();
    if by_name.len() != classes {
        return Err(Error::input("the labels", format!("{given:?}"), "a name of its own for each"));
    }
    Ok(object(json!({"id2label": by_number, "label2id": by_name})))
}
