//! Embeddings and layers of the three forms.

use super::Network;
use super::attention::mix;
use super::form::{Biases, Form};
use crate::encoding::Sizes;
use crate::error::Result;
use crate::graph::{Builder, Init, Parameter, Value};
use crate::ops::{Activation, Real};

/// The standard deviation of weights at first.
const DEVIATION: f64 = 0.02;

/// The name of the word embeddings.
pub(super) fn words(form: Form) -> &'static str {
    match form {
        Form::RoFormer(_) => "roformer.embeddings.word_embeddings.weight",
        Form::Plain => "embed.weight",
        Form::Llama(_) => "model.embed_tokens.weight",
    }
}

/// The embeddings of the batch's tokens, `[batch · length, width]`.
pub(super) fn embed<T: Real>(network: &Network, builder: &mut Builder<T>, sizes: &Sizes) -> Value {
    let (tokens, width) = (sizes.batch * sizes.length, network.embedding());
    let mut add =
        |name: &str, rows: usize| builder.parameters().add(name, &[rows, width], Init::Normal(DEVIATION));
    let table = add(words(network.form), network.vocabulary);
    let Form::RoFormer(form) = network.form else { return builder.tokens(table, tokens, width) };
    let kinds = add("roformer.embeddings.token_type_embeddings.weight", form.types);
    let (words, kinds) = (builder.tokens(table, tokens, width), builder.types(kinds, tokens, width));
    let sum = builder.sum(words, kinds);
    let x = norm(network, builder, sum, "roformer.embeddings.LayerNorm");
    match width == network.width {
        true => x,
        false => linear(builder, x, "roformer.embeddings_project", network.width, true),
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
    let Biases { output, wide, .. } = network.form.biases();
    let is_post = matches!(network.form, Form::RoFormer(_));

    let read = if is_post { x } else { norm(network, builder, x, &names.name("norm1")) };
    let joined = join(network, builder, read, &names);
    let mixed = mix(network, builder, joined, layer, sizes)?;
    let out = linear(builder, mixed, &names.name("out"), network.width, output);
    let out = builder.dropout(out, dropout);
    let sum = builder.sum(x, out);
    let x = if is_post { norm(network, builder, sum, &names.name("norm1")) } else { sum };

    let read = if is_post { x } else { norm(network, builder, x, &names.name("norm2")) };
    let inner = feed_forward(network, builder, read, &names);
    let out = linear(builder, inner, &names.name("down"), network.width, wide);
    let out = builder.dropout(out, dropout);
    let sum = builder.sum(x, out);
    Ok(if is_post { norm(network, builder, sum, &names.name("norm2")) } else { sum })
}

/// Queries, keys and values side by side, `[tokens, (heads + 2 · key_heads) · head_dim]`.
fn join<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, names: &Names) -> Value {
    let (query, key) = (network.heads * network.head_dim, network.key_heads * network.head_dim);
    let rows = [query, key, key];
    let has_bias = network.form.biases().queries;
    let joined = stack(builder, x, |kind| names.joined(kind, rows), query + 2 * key, has_bias);
    match network.form {
        Form::Llama(form) if form.family.has_head_norms() => {
            norm_heads(network, builder, joined, [query, key], names)
        }
        _ => joined,
    }
}

/// Queries, keys and values with every head of queries and keys normed.
fn norm_heads<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    joined: Value,
    [query, key]: [usize; 2],
    names: &Names,
) -> Value {
    let mut normed = |name: &str, first: usize, count: usize| {
        let part = builder.columns(joined, first, count);
        let name = names.llama(&format!("self_attn.{name}"));
        norm(network, builder, part.reshaped(network.head_dim), &name).reshaped(count)
    };
    let (queries, keys) = (normed("q_norm", 0, query), normed("k_norm", query, key));
    let values = builder.columns(joined, query + key, key);
    builder.beside([queries, keys, values])
}

fn feed_forward<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, names: &Names) -> Value {
    let (inner, has_bias) = (network.wide, network.form.biases().wide);
    let activation = match network.form {
        Form::Llama(_) => {
            let parts = |kind: &str| {
                ["gate", "up"].map(|part| (names.llama(&format!("mlp.{part}_proj.{kind}")), inner)).to_vec()
            };
            let both = stack(builder, x, parts, 2 * inner, has_bias);
            return builder.swiglu(both);
        }
        Form::RoFormer(form) => form.activation,
        Form::Plain => Activation::Gelu,
    };
    let x = linear(builder, x, &names.name("up"), inner, has_bias);
    builder.activation(x, activation)
}

/// Linear layers with the same input, one below the other, as one: `parts` names their weights or their biases.
fn stack<T: Real>(
    builder: &mut Builder<T>,
    x: Value,
    parts: impl Fn(&str) -> Vec<(String, usize)>,
    outputs: usize,
    has_bias: bool,
) -> Value {
    let parameters = builder.parameters();
    let weight = parameters.add_joined(&parts("weight"), Some(x.width), &Init::Normal(DEVIATION));
    let bias = has_bias.then(|| parameters.add_joined(&parts("bias"), None, &Init::Constant(0.0)));
    builder.linear(x, weight, bias, outputs)
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

/// The form's norm, with parameters of its own where it has any.
pub(super) fn norm<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, name: &str) -> Value {
    if let Form::RoFormer(form) = network.form
        && form.has_plain_norms
    {
        return builder.plain_norm(x, network.epsilon);
    }
    let parameters = builder.parameters();
    let weight = parameters.add(format!("{name}.weight"), &[x.width], Init::Constant(1.0));
    if let Form::Llama(_) = network.form {
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
    fn llama(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.layer)
    }

    fn name(&self, part: &str) -> String {
        let own = match (self.form, part) {
            (Form::RoFormer(_), "norm1") => "attention.output.LayerNorm",
            (Form::RoFormer(_), "norm2") => "output.LayerNorm",
            (Form::RoFormer(_), "out") => "attention.output.dense",
            (Form::RoFormer(_), "up") => "intermediate.dense",
            (Form::RoFormer(_), _) => "output.dense",
            (Form::Plain, "out") => "self_attn.out_proj",
            (Form::Plain, "up") => "linear1",
            (Form::Plain, "down") => "linear2",
            (Form::Plain, norm) => norm,
            (Form::Llama(_), "norm1") => "input_layernorm",
            (Form::Llama(_), "norm2") => "post_attention_layernorm",
            (Form::Llama(_), "out") => "self_attn.o_proj",
            (Form::Llama(_), _) => "mlp.down_proj",
        };
        match self.form {
            Form::RoFormer(_) => format!("roformer.encoder.layer.{}.{own}", self.layer),
            Form::Plain => format!("blocks.layers.{}.{own}", self.layer),
            Form::Llama(_) => self.llama(own),
        }
    }

    /// Queries, keys and values: three tensors, or one in PyTorch's encoder.
    fn joined(&self, kind: &str, rows: [usize; 3]) -> Vec<(String, usize)> {
        let three = |names: [&str; 3], prefix: String| {
            names.iter().zip(rows).map(|(name, rows)| (format!("{prefix}.{name}.{kind}"), rows)).collect()
        };
        match self.form {
            Form::RoFormer(_) => {
                let prefix = format!("roformer.encoder.layer.{}.attention.self", self.layer);
                three(["query", "key", "value"], prefix)
            }
            Form::Plain => {
                let name = format!("blocks.layers.{}.self_attn.in_proj_{kind}", self.layer);
                vec![(name, rows.iter().sum())]
            }
            Form::Llama(_) => three(["q_proj", "k_proj", "v_proj"], self.llama("self_attn")),
        }
    }
}
