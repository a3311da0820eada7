//! Ids → embeddings: words and segments, their norm and projection, codes of positions.

use super::call::Input;
use super::parameters::Parameters;
use super::positions::{CodesOnDevice, Tables};
use super::products::{Norm, in_pieces, linear};
use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Part, Real};
use std::ops::Range;

/// What came before the tokens of a call.
pub(super) struct Before<'a> {
    /// Tokens of each text.
    pub tokens: usize,
    /// With how many digits each text ends; empty for none.
    pub digits: Vec<usize>,
    /// The rows of each text, where they lie one behind the other.
    pub texts: Option<&'a [Range<usize>]>,
}

/// The embeddings of a model.
pub(super) struct Embeddings<T: Real, B: Backend> {
    /// `[vocabulary, embedding]`
    words: B::Words<T>,
    /// `[types, embedding]`; one row of zeros where there are no segments.
    types: B::Buffer<T>,
    norm: Option<Norm<T, B>>,
    project: Option<B::Matrix<T>>,
}

impl<T: Real, B: Backend> Embeddings<T, B> {
    pub fn load(device: &B, source: &impl Parameters<T>, blueprint: &Blueprint) -> Result<Self> {
        let (names, width) = (blueprint.family.names(), blueprint.embedding);
        let memory = Error::for_want_of("the embeddings");
        let mut words = device.words(blueprint.vocabulary, width).map_err(memory)?;
        let name = format!("{}.weight", names.words);
        in_pieces(source, &name, [blueprint.vocabulary, width], |first, rows| {
            if blueprint.embedding_scale != 1.0 {
                rows.iter_mut().for_each(|x| *x *= T::of(blueprint.embedding_scale));
            }
            Ok(device.set_words(&mut words, first * width, rows)?)
        })?;
        let mut types =
            device.zeros(blueprint.types.max(1) * width).map_err(Error::for_want_of("the embeddings"))?;
        if blueprint.types > 0 {
            let mut list = vec![T::ZERO; blueprint.types * width];
            source.read(&format!("{}.weight", names.types), &[blueprint.types, width], &mut list)?;
            device.upload(&list, &mut types)?;
        }
        let norm = match blueprint.norms.of_embeddings {
            true => {
                let width = blueprint.normed_embedding();
                Some(Norm::load(device, source, blueprint, names.embedding_norm, width)?)
            }
            false => None,
        };
        let project = match width == blueprint.width {
            true => None,
            false => {
                let (shape, has_bias) = ([blueprint.width, width], !blueprint.projects_first);
                Some(linear(device, source, &[names.project.into()], shape, has_bias)?)
            }
        };
        Ok(Embeddings { words, types, norm, project })
    }

    /// x `[batch · length, width]` ← the embeddings of an input.
    pub fn forward(
        &self,
        device: &B,
        blueprint: &Blueprint,
        input: &Input,
        tables: &Tables<T, B>,
        before: &Before,
        x: &mut B::Buffer<T>,
    ) -> Result<()> {
        let tokens = input.ids.len();
        let words = (&self.words, input.ids);
        let types = (&self.types, input.token_types.filter(|_| blueprint.types > 0));
        match &self.project {
            None => {
                device.embed(words, types, blueprint.width, x)?;
                if blueprint.codes_first {
                    add_codes(device, blueprint, input, tables, before, x)?;
                }
                self.norm(device, x)?;
            }
            Some(project) => {
                let mut narrow = memory(device, tokens, blueprint.embedding)?;
                device.embed(words, types, blueprint.embedding, &mut narrow)?;
                if blueprint.codes_first {
                    add_codes(device, blueprint, input, tables, before, &mut narrow)?;
                }
                if !blueprint.projects_first {
                    self.norm(device, &mut narrow)?;
                }
                device.product(project, &narrow, Activation::Identity, x)?;
                if blueprint.projects_first {
                    self.norm(device, x)?;
                }
            }
        }
        match blueprint.codes_first {
            true => Ok(()),
            false => add_codes(device, blueprint, input, tables, before, x),
        }
    }

    fn norm(&self, device: &B, x: &mut B::Buffer<T>) -> Result<()> {
        self.norm.as_ref().map_or(Ok(()), |norm| norm.apply(device, x, None))
    }
}

/// Merges codes of positions into x `[batch · length, codes]`, where the encoding has them.
fn add_codes<T: Real, B: Backend>(
    device: &B,
    blueprint: &Blueprint,
    input: &Input,
    tables: &Tables<T, B>,
    before: &Before,
    x: &mut B::Buffer<T>,
) -> Result<()> {
    let Some(CodesOnDevice { rows: codes, digits, padding: unplaced, merge }) = &tables.codes else {
        return Ok(());
    };
    let (tokens, width, batch) = (input.ids.len(), blueprint.sizes(1, 1).codes, input.batch);
    let (length, past) = (tokens / batch, before.tokens);
    let texts: Vec<&[u32]> = match before.texts {
        None => input.ids.chunks_exact(length).collect(),
        Some(texts) => texts.iter().map(|text| &input.ids[text.clone()]).collect(),
    };
    if let Some(digits) = digits {
        let ended = |text: usize| before.digits.get(text).copied().unwrap_or(0);
        let texts = texts.iter().enumerate();
        let named: Vec<u32> = texts.flat_map(|(text, ids)| digits.rows(ids, ended(text), 0)).collect();
        return Ok(device.add_named_rows(x, codes, &named, width)?);
    }
    let size = [batch, length, width];
    let Some(merge) = merge else {
        let places = match (blueprint.padding.filter(|padding| input.ids.contains(padding)), before.texts) {
            (Some(padding), _) => Some(counted(&texts, padding, *unplaced)),
            (None, Some(_)) => Some(texts.iter().flat_map(|ids| 0..ids.len() as u32).collect()),
            (None, None) => None,
        };
        return match places {
            None => Ok(device.add_rows(x, codes, past, size)?),
            Some(places) if before.texts.is_some() => Ok(device.add_named_rows(x, codes, &places, width)?),
            Some(places) => {
                let mut rows = memory(device, tokens, width)?;
                device.gather(codes, &places, width, &mut rows)?;
                Ok(device.add_rows(x, &rows, 0, [1, tokens, width])?)
            }
        };
    };
    let mut both = memory(device, tokens, 2 * width)?;
    let own = Part { buffer: &*x, offset: 0, token: width, sequence: length * width };
    // No step from sequence to sequence: all have the same codes.
    let code = Part { buffer: codes, offset: past * width, token: width, sequence: 0 };
    device.copy(own, &mut both, (0, 2 * width, length * 2 * width), size)?;
    device.copy(code, &mut both, (width, 2 * width, length * 2 * width), size)?;
    Ok(device.product(merge, &both, Activation::Identity, x)?)
}

/// The place of each token among those of its text that are not padding, and that of padding tokens, which is `unplaced`.
fn counted(texts: &[&[u32]], padding: u32, unplaced: u32) -> Vec<u32> {
    let places = texts.iter().flat_map(|ids| {
        let place = |count: &mut u32, &id: &u32| {
            let is_counted = id != padding;
            *count += u32::from(is_counted);
            Some(if is_counted { *count - 1 } else { unplaced })
        };
        ids.iter().scan(0, place)
    });
    places.collect()
}

fn memory<T: Real, B: Backend>(device: &B, tokens: usize, width: usize) -> Result<B::Buffer<T>> {
    let len = tokens.checked_mul(width).ok_or(Error::memory("the embeddings"))?;
    device.zeros(len).map_err(Error::for_want_of("the embeddings"))
}
