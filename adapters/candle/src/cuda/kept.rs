//! What is made once for a GPU: the GPU itself with its kernels, tables, and the ids of a forward pass.

use super::failed;
use crate::positions::Read;
use crate::refused;
use candle_core::Result;
use candle_core::backend::BackendDevice;
use candle_core::cuda_backend::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, DevicePtr, SyncOnDrop};
use rope::cuda::{Device, Positions, Slice, Stream, Table};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The GPU with this number, kept with its kernels for as long as the process lives: candle's devices have no room for what others make.
pub(super) fn gpu(number: usize) -> Result<Device> {
    static DEVICES: Mutex<Option<HashMap<usize, Device>>> = Mutex::new(None);
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(&number) {
        return Ok(device.clone());
    }
    let device = Device::new(number).map_err(failed)?;
    devices.insert(number, device.clone());
    Ok(device)
}

/// Copies of a table, one for each GPU that has rotated with it.
#[derive(Debug, Default)]
pub(crate) struct Tables(Mutex<Vec<Arc<Table>>>);

impl Tables {
    /// The copy on a stream's GPU, made at its first use.
    pub fn on(&self, stream: &Stream, table: &rope::Table<f32>) -> Result<Arc<Table>> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |table: &&Arc<Table>| table.device().same(stream.device(), "a table").is_ok();
        if let Some(found) = tables.iter().find(is_there) {
            return Ok(found.clone());
        }
        let made = Arc::new(Table::new(stream.device(), table).map_err(refused)?);
        tables.push(made.clone());
        Ok(made)
    }
}

/// The ids that a tensor was last rotated by on a GPU: a forward pass has those of one shape.
#[derive(Debug, Default)]
pub(crate) struct LastIds(Mutex<Option<Arc<Ids>>>);

/// Position ids, or the ends of packed sequences, that were checked for a shape and copied to a GPU.
#[derive(Debug)]
pub(crate) struct Ids {
    gpu: usize,
    /// Batch and length.
    shape: (usize, usize),
    /// None where positions are counted.
    list: Option<CudaSlice<i64>>,
}

impl LastIds {
    /// Those for a batch and length, if `check` says that the positions fit; the last ones, where they were for the same.
    pub fn of(
        &self,
        device: &CudaDevice,
        read: &Read,
        shape: (usize, usize),
        check: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<Ids>> {
        let gpu = device.cuda_stream().context().ordinal();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ids) = last.as_ref().filter(|ids| (ids.gpu, ids.shape) == (gpu, shape)) {
            return Ok(ids.clone());
        }
        check()?;
        let list = match read {
            Read::Ids(ids) | Read::BatchIds(ids) | Read::Packed(ids) if !ids.is_empty() => {
                let list = device.clone_htod(ids)?;
                // candle's stream is another one on each of the CPU's threads, and rows may be used from several.
                device.synchronize()?;
                Some(list)
            }
            _ => None,
        };
        Ok(last.insert(Arc::new(Ids { gpu, shape, list })).clone())
    }
}

impl Ids {
    /// Calls `then` with the positions as rope's kernels read them.
    pub fn with<T>(
        &self,
        device: &CudaDevice,
        read: &Read,
        then: impl FnOnce(Positions) -> Result<T>,
    ) -> Result<T> {
        let theirs = device.cuda_stream();
        let Some(list) = &self.list else { return then(Positions::Host(read.positions())) };
        let (address, _read): (u64, SyncOnDrop) = list.device_ptr(&theirs);
        // SAFETY: so many numbers of candle's memory, which is borrowed, and freed in the order of the stream.
        let ids = unsafe { Slice::<i64>::from_raw(address, list.len()) };
        then(match read {
            Read::BatchIds(_) => Positions::BatchIds(ids.into()),
            Read::Packed(_) => Positions::Packed { ends: ids.into() },
            _ => Positions::Ids(ids.into()),
        })
    }
}
