//! Operations of both number types, compiled once.
//!
//! An operation is generic, and a generic function is compiled anew in every crate that uses it: each program and each test
//! would compile all loops of training. Here they are named for `f32` and for `f64`, so that this crate compiles them, and
//! whoever builds a graph is handed a pointer.

use super::Operation;
use super::{
    across, angles, attend, dense, digits, fire, forget, linear, log_bias, lookup, loss, neighbours,
    pointwise, polar, power_bias, receptive, rotate, rows, similarity, turns,
};

/// A number type for which an operation is compiled here.
pub(crate) trait Compiles<O>: Sized {
    /// The operation, to be run through a pointer.
    fn boxed(operation: O) -> Box<dyn Operation<Self>>;
}

/// Writes [`Compiles`] for an operation and a number type.
macro_rules! compiles {
    ($number:ty, $operation:ty) => {
        impl Compiles<$operation> for $number {
            // Inlined elsewhere it would be compiled there.
            #[inline(never)]
            fn boxed(operation: $operation) -> Box<dyn Operation<Self>> {
                Box::new(operation)
            }
        }
    };
}

/// Writes [`Compiles`] for all operations, and the trait that stands for all of them. Those that hold numbers come last.
macro_rules! compiled {
    ($($plain:ident::$operation:ident),*; $($own:ident::$name:ident),*) => {
        /// A number type for which every operation is compiled here.
        #[expect(private_bounds, reason = "operations are made by the builder alone")]
        pub(crate) trait Compiled: $(Compiles<$plain::$operation> +)* $(Compiles<$own::$name<Self>> +)* {}
        impl Compiled for f32 {}
        impl Compiled for f64 {}
        $(compiles!(f32, $plain::$operation); compiles!(f64, $plain::$operation);)*
        $(compiles!(f32, $own::$name<f32>); compiles!(f64, $own::$name<f64>);)*
    };
}

compiled! {
    dense::Linear, dense::Sum, dense::Concatenate, dense::Columns, dense::Every, dense::Lift,
    digits::DigitRows, log_bias::LogBias, lookup::Tokens, loss::Classes, pointwise::Activate, pointwise::Gate, pointwise::Times, pointwise::Dropout,
    fire::Fire, forget::Accumulate, polar::Spread, polar::Firsts, power_bias::PowerBias,
    neighbours::Neighbours, receptive::Frequencies, rows::Beside, rows::Means, rows::Last, turns::Turn;
    across::Crossing, angles::SumAngles, attend::Softmax, dense::Constant, linear::Features, linear::Linear, lookup::Positions, loss::Vocabulary,
    pointwise::Norm, rotate::Rotate, rows::Scaled, similarity::PairLoss
}
