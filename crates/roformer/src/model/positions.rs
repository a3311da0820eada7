//! What an encoding is while a model runs: codes and tables on the device, kept from call to call, and ropes.

use super::parameters::Parameters;
use crate::blueprint::{Blueprint, POSITIONS};
use crate::encoding::{AnglesOf, Codes, Evaluated, Gate, GateOf, LayerTerms, PathOf, TableOf};
use crate::error::{Error, Result};
use crate::graph::{Angles, Digits, Far, Parameters as Layout};
use crate::ops::{Backend, Real, TermRows, Terms};
use rope::{Rope, Schedule, Table};
use std::sync::{Arc, Mutex, PoisonError};

/// Tables are made for at least so many tokens.
const LEAST: usize = 64;

/// The position encoding of a model.
pub(super) struct Positions<T: Real, B: Backend> {
    layout: Layout,
    parameters: Vec<T>,
    /// What was made for the longest text so far.
    kept: Mutex<Option<Arc<Tables<T, B>>>>,
}

/// Codes and tables for texts of up to `length` tokens.
pub(super) struct Tables<T: Real, B: Backend> {
    length: usize,
    /// Term 1.
    pub codes: Option<CodesOnDevice<T, B>>,
    /// The rotations that there are; layers may share one.
    ropes: Vec<Rope>,
    pub layers: Vec<LayerTables<T, B>>,
}

/// Codes of positions.
pub(super) struct CodesOnDevice<T: Real, B: Backend> {
    /// `[length, width]`, and then the row of padding tokens where they have one; a table `[…, width]` where tokens find their rows
    /// by what they are.
    pub rows: B::Buffer<T>,
    /// How they find them.
    pub digits: Option<Digits>,
    /// The row of padding tokens: the first where they have none of their own.
    pub padding: u32,
    /// What merges them with embeddings, where they are not just added.
    pub merge: Option<B::Matrix<T>>,
}

/// Terms 2 to 11 of one layer.
pub(super) struct LayerTables<T: Real, B: Backend> {
    /// Which of the ropes, one for all heads or one for each key head, and whether values are rotated too.
    pub ropes: Option<(Vec<usize>, bool)>,
    /// Which distances are far, where those are others than they seem.
    pub far: Option<Far>,
    /// The phases of keys, where there are some, if features become magnitudes first.
    pub polar: Option<Option<B::Buffer<T>>>,
    /// What sums over tokens are made of.
    pub gate: Option<(B::Matrix<T>, Gate)>,
    /// Numbers by which heads turn, `[length, key_heads · head_dim]`.
    pub turns: Option<B::Buffer<T>>,
    /// What angles by what is read are made of.
    pub angles: Option<(B::Matrix<T>, Angles)>,
    /// What maps of tokens are made of.
    pub path: Option<PathOnDevice<T, B>>,
    bias: Option<OnDevice<T, B>>,
    query: Option<OnDevice<T, B>>,
    key: Option<OnDevice<T, B>>,
    value: Option<OnDevice<T, B>>,
    content: Option<B::Buffer<T>>,
    position: Option<B::Buffer<T>>,
    pairs: Option<B::Buffer<T>>,
    counted: Option<B::Buffer<T>>,
    scale: Option<f64>,
}

/// Maps by what a layer reads.
pub(super) struct PathOnDevice<T: Real, B: Backend> {
    pub down: B::Matrix<T>,
    pub up: B::Matrix<T>,
    pub beta: B::Matrix<T>,
    /// The weight of the norm that makes w as long as 1, `[head_dim]`.
    pub unit: B::Buffer<T>,
}

/// Rows of a table, chosen by the distance.
struct OnDevice<T: Real, B: Backend> {
    rows: B::Buffer<T>,
    width: usize,
    index: Vec<u32>,
}

/// A rope's tables for the tokens of a call: of queries and of keys, which differ for xPos alone.
pub(super) struct Turning<T> {
    pub queries: Table<T>,
    pub keys: Option<Table<T>>,
}

/// Tables for the tokens of a call where they meet those that are far away.
pub(super) struct Distant<T> {
    pub queries: Table<T>,
    pub keys: Table<T>,
}

impl<T: Real, B: Backend> Positions<T, B> {
    pub fn load(blueprint: &Blueprint, source: &impl Parameters<T>) -> Result<Self> {
        let layers = blueprint.layer_encodings(blueprint.layers);
        let layout = Evaluated::<T>::layout(&blueprint.encoding, &layers, &blueprint.encoded_sizes(1));
        let mut parameters = vec![T::ZERO; layout.len()];
        for entry in layout.entries() {
            let out = &mut parameters[entry.range.clone()];
            source.read(&blueprint.of_encoding(&entry.name), &entry.shape, out)?;
        }
        Ok(Positions { layout, parameters, kept: Mutex::new(None) })
    }

    /// The code of padding tokens, which have no position of their own, where they have one: the row before the first
    /// position's.
    fn code_of_padding(&self, blueprint: &Blueprint) -> Option<&[T]> {
        if !blueprint.has_own_encoding() {
            return None;
        }
        let (row, width) = (blueprint.padding? as usize, blueprint.width);
        let table = &self.parameters[self.layout.find(POSITIONS)?.range()];
        table.chunks_exact(width).nth(row)
    }

    /// The encoding for texts of up to `length` tokens.
    pub fn tables(&self, device: &B, blueprint: &Blueprint, length: usize) -> Result<Arc<Tables<T, B>>> {
        let limit = blueprint.encoding.limit(blueprint.longest);
        if let Some(limit) = limit.filter(|&limit| length > limit) {
            let expected = format!("at most the {limit} positions that the model's encoding has");
            return Err(Error::input("the number of tokens", length, expected));
        }
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tables) = kept().as_ref().filter(|tables| tables.length >= length) {
            return Ok(tables.clone());
        }
        // Made without the lock: a thread that waits for others meanwhile may begin another call, which would wait for this one.
        // Some more, so that a text that grows token by token does not ask each time.
        let length = length.next_power_of_two().max(LEAST).min(limit.unwrap_or(usize::MAX));
        let sizes = blueprint.encoded_sizes(length);
        debug_assert_eq!(self.layout.len(), self.parameters.len());
        let layers = blueprint.layer_encodings(blueprint.layers);
        let mut made = Evaluated::new(&blueprint.encoding, &layers, &sizes, &self.parameters)?;
        let code_of_padding = self.code_of_padding(blueprint);
        if let (Some(codes), Some(padding)) = (&mut made.codes, code_of_padding) {
            codes.rows.extend(padding);
        }
        let mut tables = Tables::upload(device, made, length)?;
        if let (Some(codes), Some(_)) = (&mut tables.codes, code_of_padding) {
            codes.padding = length as u32;
        }
        let tables = Arc::new(tables);
        let mut kept = kept();
        if kept.as_ref().is_none_or(|others| others.length < length) {
            *kept = Some(tables.clone());
        }
        Ok(tables)
    }
}

impl<T: Real, B: Backend> Tables<T, B> {
    fn upload(device: &B, made: Evaluated<T>, length: usize) -> Result<Self> {
        let codes = match made.codes {
            None => None,
            Some(Codes { rows, digits, merge }) => {
                let merge = match merge {
                    None => None,
                    Some(weight) => {
                        let width = rows.len() / length;
                        let matrix = device.matrix(width, 2 * width);
                        let mut matrix = matrix.map_err(Error::for_want_of("the position encoding"))?;
                        device.set_rows(&mut matrix, 0, &weight)?;
                        Some(matrix)
                    }
                };
                Some(CodesOnDevice { rows: buffer(device, &rows)?, digits, padding: 0, merge })
            }
        };
        let mut ropes: Vec<Rope> = Vec::new();
        let layers = made.layers.into_iter().map(|layer| LayerTables::upload(device, layer, &mut ropes));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Tables { length, codes, ropes, layers })
    }

    /// How tokens find their codes, where they do by what they are.
    pub fn digits(&self) -> Option<&Digits> {
        self.codes.as_ref()?.digits.as_ref()
    }

    /// Whether all that an encoding does is to add codes of places and to turn queries, keys and values by theirs.
    pub fn are_codes_and_turns(&self) -> bool {
        let are_codes = |codes: &CodesOnDevice<T, B>| codes.digits.is_none() && codes.merge.is_none();
        let are_turns = |(index, layer): (usize, &LayerTables<T, B>)| {
            let LayerTables { far, polar, gate, turns, angles, path, .. } = layer;
            let has_more = far.is_some() || polar.is_some() || gate.is_some() || turns.is_some();
            !has_more && angles.is_none() && path.is_none() && self.terms(index, 1, 1).is_empty()
        };
        self.codes.iter().all(are_codes) && self.layers.iter().enumerate().all(are_turns)
    }

    /// Whether a rule has two sets of frequencies, and these lengths of a text have different ones.
    pub fn switch(&self, length: usize, other: usize) -> bool {
        self.ropes.iter().any(|rope| match rope.schedule() {
            Schedule::LongRope(own) => own.divisors(Some(length as u64)) != own.divisors(Some(other as u64)),
            _ => false,
        })
    }

    /// The ropes' tables for tokens that stand at `past` and after, up to `end`. Rules whose frequencies depend on the length
    /// are `told` it.
    pub fn turnings(&self, past: usize, end: usize, told: usize) -> Result<Vec<Turning<T>>> {
        let turning = |rope: &Rope| {
            let (range, told) = (past as i64..end as i64, told as u64);
            Ok(match rope.xpos() {
                None => Turning { queries: rope.table::<T>(range, told)?, keys: None },
                Some(_) => {
                    let (queries, keys) = rope.xpos_tables::<T>(range, told)?;
                    Turning { queries, keys: Some(keys) }
                }
            })
        };
        self.ropes.iter().map(turning).collect()
    }

    /// Queries' and keys' tables for those that are far away, with a row for each token from `past` up to `end`, where those stand
    /// elsewhere.
    pub fn distant(&self, past: usize, end: usize) -> Result<Option<Distant<T>>> {
        let found = self.layers.iter().find_map(|layer| Some((layer.far?, layer.ropes.as_ref()?.0[0])));
        let Some((far, rope)) = found else { return Ok(None) };
        let table = |of: fn(Far, usize) -> usize| {
            let positions: Vec<f64> = (past..end).map(|place| of(far, place) as f64).collect();
            self.ropes[rope].table_of::<T>(&positions, None)
        };
        Ok(Some(Distant { queries: table(Far::of_query)?, keys: table(Far::of_key)? }))
    }

    /// The terms of a layer that act on scores and values, for the last `queries` of `keys` tokens.
    pub fn terms(&self, layer: usize, queries: usize, keys: usize) -> Terms<'_, B::Buffer<T>> {
        let layer = &self.layers[layer];
        Terms {
            scale: layer.scale,
            cap: None,
            content: layer.content.as_ref(),
            position: layer.position.as_ref(),
            bias: self.rows(&layer.bias, queries, keys),
            query: self.rows(&layer.query, queries, keys),
            key: self.rows(&layer.key, queries, keys),
            value: self.rows(&layer.value, queries, keys),
            segments: None,
            pairs: layer.pairs.as_ref().map(|pairs| (pairs, self.length)),
            gate: None,
            counted: layer.counted.as_ref(),
            path: None,
        }
    }

    /// Entry r + length − 1 is for the distance r, which goes from 1 − queries to keys − 1.
    fn rows<'a>(
        &self,
        table: &'a Option<OnDevice<T, B>>,
        queries: usize,
        keys: usize,
    ) -> Option<TermRows<'a, B::Buffer<T>>> {
        let OnDevice { rows, width, index } = table.as_ref()?;
        let index = &index[self.length - queries..][..queries + keys - 1];
        Some(TermRows { values: rows, width: *width, index })
    }
}

impl<T: Real, B: Backend> LayerTables<T, B> {
    fn upload(device: &B, layer: LayerTerms<T>, ropes: &mut Vec<Rope>) -> Result<Self> {
        let table = |table: Option<TableOf<T>>| match table {
            None => Ok(None),
            Some(TableOf { numbers, width, index }) => {
                Ok::<_, Error>(Some(OnDevice { rows: buffer(device, &numbers)?, width, index }))
            }
        };
        let vector = |vector: Option<Vec<T>>| vector.map(|vector| buffer(device, &vector)).transpose();
        let mut place = |rope: Rope| {
            ropes.iter().position(|known| *known == rope).unwrap_or_else(|| {
                ropes.push(rope);
                ropes.len() - 1
            })
        };
        let own = layer.rotation.map(|(own, values)| (own.into_iter().map(&mut place).collect(), values));
        let gate = |GateOf { weight, bias, gate }: GateOf<T>| {
            Ok::<_, Error>((matrix(device, &weight, bias.len(), Some(&bias))?, gate))
        };
        let angles = |AnglesOf { weight, bias, angles }: AnglesOf<T>| {
            Ok::<_, Error>((matrix(device, &weight, bias.len(), Some(&bias))?, angles))
        };
        let path = |PathOf { down, up, weight, bias }: PathOf<T>| {
            let width = weight.len() / bias.len();
            let rank = down.len() / width;
            let (wide, heads) = (up.len() / rank, bias.len());
            let head_dim = wide / heads;
            let root = T::of((head_dim as f64).sqrt().recip());
            Ok::<_, Error>(PathOnDevice {
                down: matrix(device, &down, rank, None)?,
                up: matrix(device, &up, wide, None)?,
                beta: matrix(device, &weight, heads, Some(&bias))?,
                unit: buffer(device, &vec![root; head_dim])?,
            })
        };
        Ok(LayerTables {
            ropes: own,
            far: layer.far,
            polar: layer.polar.map(&vector).transpose()?,
            gate: layer.gate.map(gate).transpose()?,
            turns: vector(layer.turns)?,
            angles: layer.angles.map(angles).transpose()?,
            path: layer.path.map(path).transpose()?,
            pairs: vector(layer.pairs)?,
            counted: vector(layer.counted)?,
            bias: table(layer.bias)?,
            query: table(layer.query)?,
            key: table(layer.key)?,
            value: table(layer.value)?,
            content: vector(layer.content)?,
            position: vector(layer.position)?,
            scale: layer.scale,
        })
    }
}

/// A weight `[outputs, …]` on the device, perhaps with a bias.
fn matrix<T: Real, B: Backend>(
    device: &B,
    weight: &[T],
    outputs: usize,
    bias: Option<&[T]>,
) -> Result<B::Matrix<T>> {
    let matrix = device.matrix(outputs, weight.len() / outputs);
    let mut matrix = matrix.map_err(Error::for_want_of("the position encoding"))?;
    device.set_rows(&mut matrix, 0, weight)?;
    bias.map_or(Ok(()), |bias| device.set_bias(&mut matrix, 0, bias))?;
    Ok(matrix)
}

/// Numbers on the device.
fn buffer<T: Real, B: Backend>(device: &B, numbers: &[T]) -> Result<B::Buffer<T>> {
    let mut buffer = device.zeros(numbers.len()).map_err(Error::for_want_of("the position encoding"))?;
    device.upload(numbers, &mut buffer)?;
    Ok(buffer)
}
