//! The operations of a model, each as one piece of work in the stream.

use super::arguments::{Copy, Embed, Finish, Gate, Norm};
use super::kernels::{activation_number, narrow};
use super::product::{Epilogue, Key, Matrix, Places, Storage};
use super::{Arithmetic, Buffer, Cuda};
use crate::attention::linear::{Carried, infer};
use crate::attention::softmax::{Mask, Shape};
use crate::error::{Error, Result};
use crate::graph::LinearForm;
use crate::ops::{Activation, Backend, HeadRows, LinearWork, Part, Real, Span, Terms};
use gpu::Size;
use half::bf16;
use rope::cuda::ViewMut;
use rope::{Positions, Table, Turn};
use std::any::Any;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Bytes of a wide access.
const WIDE: usize = 16;

/// How many numbers a thread takes: 16 bytes where everything is a multiple of that.
fn chunk(size: usize, strides: &[usize], places: &[u64]) -> usize {
    let count = WIDE / size;
    let is_wide = strides.iter().all(|stride| stride.is_multiple_of(count))
        && places.iter().all(|place| place.is_multiple_of(WIDE as u64));
    if is_wide { count } else { 1 }
}

/// Rows that are as wide as the weight, as one head.
fn whole_rows<T: Real>(weight: &Buffer<T>) -> HeadRows {
    HeadRows { step: weight.len, offset: 0, heads: 1 }
}

impl Cuda {
    fn size(&self) -> usize {
        self.0.arithmetic.size()
    }

    /// `norm` over vectors that are checked to lie within `x`.
    #[expect(clippy::too_many_arguments, reason = "all that the four norms differ in")]
    fn norm<T: Real>(
        &self,
        x: &Buffer<T>,
        residual: Option<&Buffer<T>>,
        weight: &Buffer<T>,
        bias: Option<&Buffer<T>>,
        epsilon: f64,
        HeadRows { step, offset, heads }: HeadRows,
        sum: Option<&Buffer<T>>,
        out: &Buffer<T>,
    ) -> Result<()> {
        let (size, width) = (self.size(), weight.len);
        if width == 0 || heads == 0 || x.len == 0 {
            return Ok(());
        }
        assert!(offset + heads * width <= step && x.len.is_multiple_of(step), "shapes of a norm");
        let is_as_x = |other: &Buffer<T>| other.len == x.len;
        assert!(residual.is_none_or(is_as_x) && sum.is_none_or(is_as_x) && is_as_x(out), "shapes of a norm");
        assert!(bias.is_none_or(|bias| bias.len == width), "shapes of a norm");
        let vectors = x.len / step * heads;
        let work = Norm {
            x: x.at(0, size),
            residual: residual.map_or(0, |residual| residual.at(0, size)),
            weight: weight.at(0, size),
            bias: bias.map_or(0, |bias| bias.at(0, size)),
            sum: sum.map_or(0, |sum| sum.at(0, size)),
            out: out.at(0, size),
            vectors: vectors as u64,
            step: step as u64,
            offset: offset as u64,
            heads: narrow(heads)?,
            width: narrow(width)?,
            epsilon: epsilon as f32,
        };
        let lane = chunk(size, &[width, step, offset], &[]) * 32;
        let turns = width.div_ceil(lane);
        let is_wide = lane > 32 && turns <= 8;
        let (kernel, launch_size) = if is_wide {
            let index = turns.next_power_of_two().trailing_zeros() as usize;
            (&self.set().norm[index], Size::new(vectors.div_ceil(4), [32, 4]))
        } else {
            let shared = width * size_of::<f32>();
            if shared > 48 << 10 {
                self.set().norm_any.allow_shared(shared)?;
            }
            let threads = width.next_multiple_of(32).min(256);
            (&self.set().norm_any, Size::new(vectors, [threads, 1]).shared(shared))
        };
        // SAFETY: the vectors lie within x, and residual, sum and out are as long as x.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), launch_size, (work,)) }?)
    }

    fn multiply<T: Real>(
        &self,
        matrix: &Matrix<T>,
        x: &Buffer<T>,
        activation: Activation,
        out: &Buffer<T>,
    ) -> Result<()> {
        let (size, outputs, inputs) = (self.size(), matrix.outputs, matrix.inputs);
        if out.len == 0 {
            return Ok(());
        }
        let rows = out.len / outputs;
        assert!(out.len == rows * outputs && x.len == rows * inputs, "shapes of a product");
        let is_short = self.0.arithmetic == Arithmetic::Bf16;
        let epilogue = match (matrix.has_bias, activation) {
            (true, Activation::GeluTanh) if is_short => Epilogue::BiasGeluTanh,
            (false, Activation::GeluTanh) if is_short => Epilogue::GeluTanh,
            (true, _) => Epilogue::Bias,
            (false, _) => Epilogue::Nothing,
        };
        let out_place = out.at(0, size);
        let places = Places {
            left: x.at(0, size),
            right: matrix.weight.pointer(),
            bias: matrix.bias.pointer(),
            added: out_place,
            share: 0.0,
            out: out_place,
        };
        let storage = if is_short { Storage::Bf16 } else { Storage::F32 };
        let key = Key::of_layer(storage, [rows, inputs, outputs], epilogue);
        let (mut bias, mut left) = (0, activation);
        // SAFETY: of these sizes: x and out as asserted, the weight and the bias as the matrix was made.
        if unsafe { self.0.products.multiply(key, places) }? {
            if matches!(epilogue, Epilogue::GeluTanh | Epilogue::BiasGeluTanh) {
                left = Activation::Identity;
            }
        } else {
            // Shapes that cuBLASLt has no epilogue for.
            let plain = Key { epilogue: Epilogue::Nothing, ..key };
            // SAFETY: as above.
            if !unsafe { self.0.products.multiply(plain, places) }? {
                let why = format!("cuBLASLt has no product [{rows}, {inputs}] · [{inputs}, {outputs}]");
                return Err(Error::Device(why));
            }
            bias = if matrix.has_bias { places.bias } else { 0 };
        }
        if left == Activation::Identity && bias == 0 {
            return Ok(());
        }
        let count = chunk(size, &[outputs], &[]);
        let work = Finish {
            x: places.out,
            bias,
            chunks: (out.len / count) as u64,
            row: narrow(outputs / count)?,
            activation: activation_number(left),
        };
        let kernel = &self.set().finish[usize::from(count > 1)];
        // SAFETY: all of out, and a bias as wide as its rows.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), Size::each(out.len / count), (work,)) }?)
    }

    fn look_up<T: Real>(
        &self,
        (words, ids): (&Buffer<T>, &[u32]),
        (kinds, types): (&Buffer<T>, Option<&[u32]>),
        width: usize,
        out: &Buffer<T>,
    ) -> Result<()> {
        if out.len == 0 {
            return Ok(());
        }
        let is_within = |buffer: &Buffer<T>, id: u32| (id as usize + 1) * width <= buffer.len;
        assert!(ids.iter().all(|&id| is_within(words, id)), "ids within the vocabulary");
        assert!(types.unwrap_or(&[0]).iter().all(|&kind| is_within(kinds, kind)), "types within their table");
        assert!(out.len == ids.len() * width && types.is_none_or(|types| types.len() == ids.len()), "shapes");
        let size = self.size();
        let count = chunk(size, &[width], &[]);
        // The ids' memory is shared: no other pass may put its own before this launch.
        let mut state = self.state();
        let queue = &self.0.queue;
        let work = Embed {
            words: words.at(0, size),
            kinds: kinds.at(0, size),
            ids: state.ids.put(queue, ids)?,
            types: types.map_or(Ok(0), |types| state.types.put(queue, types))?,
            out: out.at(0, size),
            chunks: (out.len / count) as u64,
            row: narrow(width / count)?,
        };
        state.begin()?;
        let kernel = &self.set().embed[usize::from(count > 1)];
        // SAFETY: ids and types were checked against their tables, and out has a row for each.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), Size::each(out.len / count), (work,)) }?)
    }

    fn turn<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &Buffer<T>,
        offset: usize,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        let Some(table) = (table as &dyn Any).downcast_ref::<Table<f32>>() else {
            return Err(super::wrong_type());
        };
        let ends = [0, 1, 2].map(|axis| shape[axis].saturating_sub(1) * steps[axis]);
        let is_empty = shape.contains(&0);
        assert!(
            is_empty || offset + ends.iter().sum::<usize>() + shape[3] <= x.len,
            "heads within their buffer"
        );
        let (mut state, place) = (self.state(), x.at(if is_empty { 0 } else { offset }, self.size()));
        let table = state.table(table)?;
        let (rows, stream) = (table.at(Positions::From(first))?, self.0.queue.stream());
        if self.size() == 2 {
            // SAFETY: within the buffer, as checked, which is borrowed exclusively and given back in the stream's order.
            let mut view = unsafe { ViewMut::<bf16>::from_raw(place, shape, steps)? };
            rows.rotate(stream, Turn::Forward, &mut view)?;
        } else {
            // SAFETY: as above.
            let mut view = unsafe { ViewMut::<f32>::from_raw(place, shape, steps)? };
            rows.rotate(stream, Turn::Forward, &mut view)?;
        }
        Ok(())
    }

    fn copy_part<T: Real>(
        &self,
        from: Part<'_, Buffer<T>>,
        to: &Buffer<T>,
        (offset, token, sequence): (usize, usize, usize),
        [batch, tokens, width]: [usize; 3],
    ) -> Result<()> {
        if batch * tokens * width == 0 {
            return Ok(());
        }
        let end = |offset, token, sequence| offset + (batch - 1) * sequence + (tokens - 1) * token + width;
        assert!(
            end(from.offset, from.token, from.sequence) <= from.buffer.len,
            "numbers within their buffer"
        );
        assert!(end(offset, token, sequence) <= to.len, "numbers within their buffer");
        let size = self.size();
        let places = [from.buffer.at(from.offset, size), to.at(offset, size)];
        let count = chunk(size, &[width, token, sequence, from.token, from.sequence], &places);
        let work = Copy {
            from: places[0],
            to: places[1],
            from_token: (from.token / count) as u64,
            from_sequence: (from.sequence / count) as u64,
            to_token: (token / count) as u64,
            to_sequence: (sequence / count) as u64,
            chunks: (batch * tokens * width / count) as u64,
            tokens: narrow(tokens)?,
            width: narrow(width / count)?,
        };
        let kernel = &self.0.kernels.copy[if count > 1 { 2 } else { size / 4 }];
        // SAFETY: both ends were checked.
        Ok(unsafe {
            kernel.launch(self.0.queue.stream(), Size::each(batch * tokens * width / count), (work,))
        }?)
    }
}

impl Backend for Cuda {
    type Buffer<T: Real> = Buffer<T>;
    type Matrix<T: Real> = Matrix<T>;
    type Words<T: Real> = Buffer<T>;
    type Scratch<T: Real> = ();
    type State<T: Real> = Carried<T>;
    /// Never made: attention reads keys and values where they stand.
    type Kept<T: Real> = Infallible;

    fn zeros<T: Real>(&self, len: usize) -> Result<Buffer<T>> {
        self.buffer(len)
    }

    fn fit<T: Real>(&self, buffer: &mut Buffer<T>, len: usize) -> Result<()> {
        self.refit(buffer, len)
    }

    fn has_room<T: Real>(&self, _numbers: u128) -> bool {
        // Memory of a GPU is there when it is given: asking for it is the check.
        true
    }

    fn upload<T: Real>(&self, from: &[T], to: &mut Buffer<T>) -> Result<()> {
        assert_eq!(from.len(), to.len, "as many numbers");
        self.store(&to.block, 0, from)
    }

    fn download<T: Real>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<()> {
        self.state().end()?;
        self.fetch(from, to)
    }

    fn list<T: Real>(&self, from: &Buffer<T>, len: usize) -> Result<Vec<T>> {
        self.state().end()?;
        self.fetch_list(from, len)
    }

    fn matrix<T: Real>(&self, outputs: usize, inputs: usize) -> Result<Matrix<T>> {
        self.check_type::<T>()?;
        let (weight, bias) = (self.zero_block(outputs.saturating_mul(inputs))?, self.zero_block(outputs)?);
        Ok(Matrix { weight, bias, has_bias: false, outputs, inputs, kind: PhantomData })
    }

    fn set_rows<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, rows: &[T]) -> Result<()> {
        self.store(&matrix.weight, first * matrix.inputs, rows)
    }

    fn set_bias<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, bias: &[T]) -> Result<()> {
        matrix.has_bias = true;
        self.store(&matrix.bias, first, bias)
    }

    fn matrix_bytes<T: Real>(&self, matrix: &Matrix<T>) -> usize {
        matrix.bytes()
    }

    fn words<T: Real>(&self, rows: usize, width: usize) -> Result<Buffer<T>> {
        self.buffer(rows.saturating_mul(width))
    }

    fn set_words<T: Real>(&self, words: &mut Buffer<T>, first: usize, numbers: &[T]) -> Result<()> {
        self.store(&words.block, first, numbers)
    }

    fn scratch<T: Real>(&self) -> Result<()> {
        Ok(())
    }

    fn product<T: Real>(
        &self,
        matrix: &Matrix<T>,
        x: &Buffer<T>,
        activation: Activation,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        self.multiply(matrix, x, activation, out)
    }

    fn layer_norm<T: Real>(
        &self,
        x: &mut Buffer<T>,
        residual: Option<&Buffer<T>>,
        weight: &Buffer<T>,
        bias: &Buffer<T>,
        epsilon: f64,
    ) -> Result<()> {
        self.norm(x, residual, weight, Some(bias), epsilon, whole_rows(weight), None, x)
    }

    fn rms_norm<T: Real>(
        &self,
        x: &mut Buffer<T>,
        residual: Option<&Buffer<T>>,
        weight: &Buffer<T>,
        epsilon: f64,
    ) -> Result<()> {
        self.norm(x, residual, weight, None, epsilon, whole_rows(weight), None, x)
    }

    fn add_norm<T: Real>(
        &self,
        x: &mut Buffer<T>,
        delta: Option<&Buffer<T>>,
        weight: &Buffer<T>,
        bias: Option<&Buffer<T>>,
        epsilon: f64,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        let sum = delta.is_some().then_some(&*x);
        self.norm(x, delta, weight, bias, epsilon, whole_rows(weight), sum, out)
    }

    fn rms_norm_heads<T: Real>(
        &self,
        x: &mut Buffer<T>,
        heads: HeadRows,
        weight: &Buffer<T>,
        epsilon: f64,
    ) -> Result<()> {
        self.norm(x, None, weight, None, epsilon, heads, None, x)
    }

    fn gate<T: Real>(
        &self,
        gate_up: &Buffer<T>,
        wide: usize,
        activation: Activation,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        assert!(
            gate_up.len == 2 * out.len && (out.len == 0 || out.len.is_multiple_of(wide)),
            "shapes of a gate"
        );
        let (size, count) = (self.size(), chunk(self.size(), &[wide], &[]));
        let (x, chunks) = (gate_up.at(0, size), out.len / count);
        let (row, activation) = (narrow(wide / count)?, activation_number(activation));
        let work = Gate { x, out: out.at(0, size), chunks: chunks as u64, row, activation };
        let kernel = &self.set().gate[usize::from(count > 1)];
        // SAFETY: all of out, and twice as much of gate_up.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), Size::each(chunks), (work,)) }?)
    }

    fn embed<T: Real>(
        &self,
        words_and_ids: (&Buffer<T>, &[u32]),
        kinds_and_types: (&Buffer<T>, Option<&[u32]>),
        width: usize,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        self.look_up(words_and_ids, kinds_and_types, width, out)
    }

    fn gather<T: Real>(
        &self,
        from: &Buffer<T>,
        rows: &[u32],
        width: usize,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        // As words are looked up, with nothing added.
        let nothing = self.buffer(width)?;
        self.look_up((from, rows), (&nothing, None), width, out)
    }

    fn rotate<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &mut Buffer<T>,
        offset: usize,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        self.turn(table, first, x, offset, shape, steps)
    }

    fn add_rows<T: Real>(
        &self,
        x: &mut Buffer<T>,
        rows: &Buffer<T>,
        first: usize,
        size: [usize; 3],
    ) -> Result<()> {
        self.add_code_rows(x, rows, first, size)
    }

    fn append<T: Real>(
        &self,
        _: [Part<'_, Buffer<T>>; 2],
        kept: &mut Infallible,
        _: usize,
        _: usize,
    ) -> Result<()> {
        match *kept {}
    }

    fn attend_kept<T: Real>(
        &self,
        _: &Shape,
        (_, kept): (Part<'_, Buffer<T>>, &Infallible),
        _: &Mask,
        _: Option<f64>,
        _: &mut Buffer<T>,
        _: &(),
    ) -> Result<()> {
        match *kept {}
    }

    fn pick_kept<T: Real>(&self, kept: &Infallible, _: &[usize]) -> Result<Infallible> {
        match *kept {}
    }

    fn attend<T: Real>(
        &self,
        shape: &Shape,
        qkv: [Part<'_, Buffer<T>>; 3],
        mask: &Mask,
        terms: &Terms<'_, Buffer<T>>,
        out: &mut Buffer<T>,
        _scratch: &(),
    ) -> Result<()> {
        match terms.is_empty() {
            true => self.attend_parts(shape, qkv, mask, terms.scale, out),
            false => self.attend_terms(shape, qkv, mask, terms, out),
        }
    }

    // The features and sums of linear attention are the CPU's; the products around it are not.

    fn attend_linear<T: Real>(
        &self,
        work: &LinearWork<'_, T>,
        joined: &Buffer<T>,
        turns: Option<&Buffer<T>>,
        state: Option<&mut Carried<T>>,
        out: &mut Buffer<T>,
    ) -> Result<()> {
        let joined = self.fetch_list(joined, joined.len)?;
        let turns = turns.map(|turns| self.fetch_list(turns, turns.len)).transpose()?;
        let mut results = vec![T::ZERO; out.len];
        infer(work, (&joined, turns.as_deref()), state, &mut results)?;
        self.store(&out.block, 0, &results)
    }

    fn state<T: Real>(&self, form: LinearForm, size: [usize; 3]) -> Result<Carried<T>> {
        Carried::new(form.queries, size)
    }

    fn pick_state<T: Real>(&self, state: &Carried<T>, texts: &[usize]) -> Result<Carried<T>> {
        state.pick(texts)
    }

    fn copy<T: Real>(
        &self,
        from: Part<'_, Buffer<T>>,
        to: &mut Buffer<T>,
        at: (usize, usize, usize),
        size: [usize; 3],
    ) -> Result<()> {
        self.copy_part(from, to, at, size)
    }

    fn pool<T: Real>(&self, x: &Buffer<T>, width: usize, spans: &[Span]) -> Result<Vec<T>> {
        self.pool_rows(x, width, spans)
    }

    fn mean<T: Real>(
        &self,
        x: &Buffer<T>,
        [batch, tokens, width]: [usize; 3],
        out: &mut Buffer<T>,
    ) -> Result<()> {
        assert!(x.len == batch * tokens * width && out.len == batch * width, "shapes of a mean");
        let (from, to) = (x.at(0, self.size()), out.at(0, self.size()));
        let all = (from, to, narrow(batch)?, narrow(tokens)?, narrow(width)?);
        // SAFETY: the five arguments of the kernel; x and out have these sizes.
        Ok(unsafe { self.set().mean.launch(self.0.queue.stream(), Size::each(batch * width), all) }?)
    }
}
