//! Models that are run: a [`Blueprint`](crate::blueprint::Blueprint) with weights on a device.
//!
//! ```text
//! model.rs       loading a model and running it
//! embed.rs       ids → embeddings, with codes of positions
//! layer.rs       one layer
//! attend.rs      its attention to its own tokens
//! cross.rs       its attention to another model's output
//! pass.rs        what all layers of a forward pass share
//! buffers.rs     the memory of a forward pass
//! products.rs    norms and linear layers, which it is made of
//! convolve.rs    a convolution over the embeddings, beside the first layer
//! positions.rs   the encoding's tables on the device, kept from call to call
//! heads.rs       hidden states → scores
//! cache.rs       keys and values of tokens already seen
//! packed.rs      texts of several lengths without their padding
//! call.rs        what a model is given and what it gives
//! parameters.rs  where tensors come from
//! ```

mod attend;
mod buffers;
mod cache;
mod call;
mod convolve;
mod cross;
mod embed;
mod heads;
mod layer;
#[expect(clippy::module_inception, reason = "the model itself")]
mod model;
mod packed;
mod parameters;
mod pass;
mod positions;
mod products;

pub use crate::blueprint::{HeadKind, Problem};
pub use cache::Cache;
pub use call::{Call, Encoded, Input, Output, States};
pub use heads::{Logits, Scores};
pub use model::Model;
pub use parameters::{Hashed, Parameters};
