//! The names of variables in BERT's first release, which bert4keras and the releases of RoFormer keep, as transformers has
//! them.
//!
//! ```text
//! bert/embeddings/word_embeddings                        roformer.embeddings.word_embeddings.weight
//! bert/encoder/embedding_hidden_mapping_in/kernel        roformer.embeddings_project.weight, transposed
//! bert/encoder/layer_0/attention/self/query/kernel       roformer.encoder.layer.0.attention.self.query.weight, transposed
//! bert/encoder/layer_0/output/LayerNorm/gamma and beta   roformer.encoder.layer.0.output.LayerNorm.weight and .bias
//! cls/predictions/output_bias                            cls.predictions.bias
//! ```
//!
//! RoFormer's variables are in the scope `bert` as well. What tells BERT's is that it has learned vectors of positions.

use super::Tensors;

/// What only BERT has, of the models in this scope that are read here.
const POSITIONS: &str = "bert/embeddings/position_embeddings";

/// What optimizers call the numbers that they keep for a variable: a scope under it, or one around all of theirs.
const OPTIMIZERS: [&str; 10] = [
    "adam_m",
    "adam_v",
    "Adam",
    "Adam_1",
    "AdamWeightDecayOptimizer",
    "AdamWeightDecayOptimizer_1",
    "lamb_m",
    "lamb_v",
    "LAMB",
    "training",
];

/// What training keeps once.
const COUNTS: [&str; 3] = ["global_step", "beta1_power", "beta2_power"];

/// The head that tells whether a text follows another, which nothing here has.
const NEXT_TEXT: &str = "cls/seq_relationship/";

/// Tensors under transformers' names, and the names of those that were left out because no model has them. A name that is
/// not known stays as it is.
pub(super) fn renamed(tensors: Tensors) -> (Tensors, Vec<String>) {
    let body = if tensors.contains_key(POSITIONS) { "bert" } else { "roformer" };
    let (mut renamed, mut left_out) = (Tensors::new(), Vec::new());
    for (name, tensor) in tensors {
        let is_of_training =
            COUNTS.contains(&name.as_str()) || name.split('/').any(|part| OPTIMIZERS.contains(&part));
        if is_of_training || name.starts_with(NEXT_TEXT) {
            left_out.push(name);
            continue;
        }
        let (new, is_kernel) = new_name(&name, body).unwrap_or((name.clone(), false));
        // Two of one name: the second is not what it seems to be, and whoever checks the names will say so.
        let new = if renamed.contains_key(&new) { name } else { new };
        renamed.insert(new, if is_kernel { tensor.transposed() } else { tensor });
    }
    (renamed, left_out)
}

/// transformers' name of a variable, and whether it is the matrix of a product; nothing if the name is not known.
fn new_name(name: &str, body: &str) -> Option<(String, bool)> {
    let (scope, rest) = name.split_once('/')?;
    let scope = match scope {
        "bert" => body,
        "cls" => "cls",
        _ => return None,
    };
    let (inner, last) = rest.rsplit_once('/')?;
    let (last, is_kernel) = match last {
        "kernel" => (".weight", true),
        "gamma" => (".weight", false),
        "beta" | "bias" => (".bias", false),
        "output_bias" if rest == "predictions/output_bias" => (".bias", false),
        "word_embeddings" => (".word_embeddings.weight", false),
        "token_type_embeddings" => (".token_type_embeddings.weight", false),
        "position_embeddings" => (".position_embeddings.weight", false),
        _ => return None,
    };
    let inner = match inner {
        "encoder/embedding_hidden_mapping_in" => "embeddings_project".into(),
        inner => inner.replace("encoder/layer_", "encoder/layer.").replace('/', "."),
    };
    Some((format!("{scope}.{inner}{last}"), is_kernel))
}
