//! Embeddings and layers of the three forms.

use super::attention::mix;
use super::{Form, Network};
use crate::encoding::Sizes;
use crate::error::Result;
use crate::graph::{Builder, Init, Parameter, Value};
use crate::ops::{Activation, Real};

/// The standard deviation of weights at first.
const DEVIATION: f64 = 0.02;

/// The name of the word embeddings.
pub(super) fn words(form: Form) -> &'static str {
    match form {
        Form::RoFormer { .. } => "roformer.embeddings.word_embeddings.weight",
        Form::Plain => "embed.weight",
        Form::Llama { .. } => "model.embed_tokens.weight",
    }
}

/// The embeddings of the batch's tokens, `[batch · length, width]`.
pub(super) fn embed<T: Real>(network: &Network, builder: &mut Builder<T>, sizes: &Sizes) -> Value {
    let (tokens, width) = (sizes.batch * sizes.length, sizes.width);
    let mut add =
        |name: &str, rows: usize| builder.parameters().add(name, &[rows, width], Init::Normal(DEVIATION));
    let table = add(words(network.form), network.vocabulary);
    match network.form {
        Form::RoFormer { types, .. } => {
            let kinds = add("roformer.embeddings.token_type_embeddings.weight", types);
            let (words, kinds) = (builder.tokens(table, tokens, width), builder.types(kinds, tokens, width));
            let sum = builder.sum(words, kinds);
            norm(network, builder, sum, "roformer.embeddings.LayerNorm")
        }
        _ => builder.tokens(table, tokens, width),
    }
}

/// One layer.
pub(super) fn layer<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    x: Value,
    layer: usize,
    sizes: &Sizes,
) -> Result<Value> {
    let dropout = network.dropout;
    let names = Names { form: network.form, layer };
    let is_post = matches!(network.form, Form::RoFormer { .. });

    let read = if is_post { x } else { norm(network, builder, x, &names.name("norm1")) };
    let joined = join(network, builder, read, &names);
    let mixed = mix(network, builder, joined, layer, sizes)?;
    let out = linear(builder, mixed, &names.name("out"), network.width, names.has_bias());
    let out = builder.dropout(out, dropout);
    let sum = builder.sum(x, out);
    let x = if is_post { norm(network, builder, sum, &names.name("norm1")) } else { sum };

    let read = if is_post { x } else { norm(network, builder, x, &names.name("norm2")) };
    let inner = feed_forward(network, builder, read, &names);
    let out = linear(builder, inner, &names.name("down"), network.width, names.has_bias());
    let out = builder.dropout(out, dropout);
    let sum = builder.sum(x, out);
    Ok(if is_post { norm(network, builder, sum, &names.name("norm2")) } else { sum })
}

/// Queries, keys and values side by side.
fn join<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, names: &Names) -> Value {
    let (query, key) = (network.heads * network.head_dim, network.key_heads * network.head_dim);
    let rows = [query, key, key];
    let parts = |kind: &str| names.joined(kind, rows);
    let parameters = builder.parameters();
    let weight = parameters.add_joined(&parts("weight"), Some(x.width), &Init::Normal(DEVIATION));
    let has_bias = names.has_bias() || matches!(network.form, Form::Llama { has_bias: true, .. });
    let bias = has_bias.then(|| parameters.add_joined(&parts("bias"), None, &Init::Constant(0.0)));
    builder.linear(x, weight, bias, query + 2 * key)
}

fn feed_forward<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, names: &Names) -> Value {
    let wide = network.wide;
    match network.form {
        Form::Llama { .. } => {
            let parts =
                ["gate_proj", "up_proj"].map(|part| (names.llama(&format!("mlp.{part}.weight")), wide));
            let weight = builder.parameters().add_joined(&parts, Some(x.width), &Init::Normal(DEVIATION));
            let both = builder.linear(x, weight, None, 2 * wide);
            builder.swiglu(both)
        }
        Form::RoFormer { activation, .. } => {
            let inner = linear(builder, x, &names.name("up"), wide, true);
            builder.activation(inner, activation)
        }
        Form::Plain => {
            let inner = linear(builder, x, &names.name("up"), wide, true);
            builder.activation(inner, Activation::Gelu)
        }
    }
}

/// A linear layer with parameters of its own.
pub(super) fn linear<T: Real>(
    builder: &mut Builder<T>,
    x: Value,
    name: &str,
    outputs: usize,
    has_bias: bool,
) -> Value {
    let parameters = builder.parameters();
    let weight = parameters.add(format!("{name}.weight"), &[outputs, x.width], Init::Normal(DEVIATION));
    let bias = has_bias.then(|| parameters.add(format!("{name}.bias"), &[outputs], Init::Constant(0.0)));
    builder.linear(x, weight, bias, outputs)
}

/// The form's norm, with parameters of its own.
pub(super) fn norm<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, name: &str) -> Value {
    let parameters = builder.parameters();
    let weight = parameters.add(format!("{name}.weight"), &[x.width], Init::Constant(1.0));
    if let Form::Llama { .. } = network.form {
        return builder.rms_norm(x, weight, network.epsilon);
    }
    let bias: Parameter = parameters.add(format!("{name}.bias"), &[x.width], Init::Constant(0.0));
    builder.layer_norm(x, weight, bias, network.epsilon)
}

/// What the parts of a layer are called.
struct Names {
    form: Form,
    layer: usize,
}

impl Names {
    fn has_bias(&self) -> bool {
        !matches!(self.form, Form::Llama { .. })
    }

    fn llama(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.layer)
    }

    fn name(&self, part: &str) -> String {
        let own = match (self.form, part) {
            (Form::RoFormer { .. }, "norm1") => "attention.output.LayerNorm",
            (Form::RoFormer { .. }, "norm2") => "output.LayerNorm",
            (Form::RoFormer { .. }, "out") => "attention.output.dense",
            (Form::RoFormer { .. }, "up") => "intermediate.dense",
            (Form::RoFormer { .. }, _) => "output.dense",
            (Form::Plain, "out") => "self_attn.out_proj",
            (Form::Plain, "up") => "linear1",
            (Form::Plain, "down") => "linear2",
            (Form::Plain, norm) => norm,
            (Form::Llama { .. }, "norm1") => "input_layernorm",
            (Form::Llama { .. }, "norm2") => "post_attention_layernorm",
            (Form::Llama { .. }, "out") => "self_attn.o_proj",
            (Form::Llama { .. }, _) => "mlp.down_proj",
        };
        match self.form {
            Form::RoFormer { .. } => format!("roformer.encoder.layer.{}.{own}", self.layer),
            Form::Plain => format!("blocks.layers.{}.{own}", self.layer),
            Form::Llama { .. } => self.llama(own),
        }
    }

    /// Queries, keys and values: three tensors, or one in PyTorch's encoder.
    fn joined(&self, kind: &str, rows: [usize; 3]) -> Vec<(String, usize)> {
        let three = |names: [&str; 3], prefix: String| {
            names.iter().zip(rows).map(|(name, rows)| (format!("{prefix}.{name}.{kind}"), rows)).collect()
        };
        match self.form {
            Form::RoFormer { .. } => {
                let prefix = format!("roformer.encoder.layer.{}.attention.self", self.layer);
                three(["query", "key", "value"], prefix)
            }
            Form::Plain => {
                let name = format!("blocks.layers.{}.self_attn.in_proj_{kind}", self.layer);
                vec![(name, rows.iter().sum())]
            }
            Form::Llama { .. } => three(["q_proj", "k_proj", "v_proj"], self.llama("self_attn")),
        }
    }
}
