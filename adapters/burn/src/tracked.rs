//! rope's kernels in a graph of gradients: an operation of burn's autodiff whose way back is the conjugate rotation.

use crate::Result;
use crate::turning::{Kernels, Turning};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::tensor::FloatTensor;
use burn::backend::{DispatchAutodiffContext, GradientCheckpointingStrategy};
use std::marker::PhantomData;

/// Why neither way back can fail: the tensor has the shape of one that was rotated.
const ROTATED: &str = "a tensor of this shape was rotated before";

/// Rotates a tensor that may take part in a gradient.
pub(crate) fn rotate<B: Kernels>(
    x: FloatTensor<Autodiff<B>>,
    turning: &Turning,
    context: DispatchAutodiffContext,
) -> Result<FloatTensor<Autodiff<B>>> {
    match context {
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            registered::<B, BalancedCheckpointing>(x, turning)
        }
        _ => registered::<B, NoCheckpointing>(x, turning),
    }
}

fn registered<B: Kernels, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B>>,
    turning: &Turning,
) -> Result<FloatTensor<Autodiff<B>>> {
    let again = Again::<B> { x: x.id(), turning: turning.clone(), backend: PhantomData };
    let prepared = Rotation.prepare::<C>([x.node()]).memory_bound().retro_forward(again).parents([&x]);
    // What the graph keeps of x, it holds: then this is rotated into new memory.
    let prepared = prepared.stateful();
    let y = B::rotate(x.into_primitive(), turning)?;
    Ok(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(turning.clone(), y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    })
}

#[derive(Debug)]
struct Rotation;

impl<B: Kernels> Backward<B, 1> for Rotation {
    type State = Turning;

    fn backward(self, ops: Ops<Turning, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let back = ops.state.reversed();
        unary::<B, _>(ops.parents, ops.node, gradients, |dy| B::rotate(dy, &back).expect(ROTATED));
    }
}

/// The rotation once more, where checkpointing keeps x and not its rotation.
#[derive(Debug)]
struct Again<B> {
    x: NodeId,
    turning: Turning,
    backend: PhantomData<B>,
}

impl<B: Kernels> RetroForward for Again<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<B::FloatTensorPrimitive>(&self.x);
        states.save(out_node, B::rotate(x, &self.turning).expect(ROTATED));
    }
}
