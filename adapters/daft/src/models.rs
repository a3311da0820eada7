//! The models of a process. Daft's functions have no state of their own: it calls one on several threads at once, batch by batch,
//! with nothing but columns.

use crate::settings::Settings;
use daft_ext::prelude::DaftResult;
use roformer::ops::Cpu;
use roformer::{Pipeline, hub};
use std::sync::{Arc, Mutex, PoisonError};

/// How many models are kept: as many as `rotary.corpus` keeps.
const KEPT: usize = 2;

/// Models with the settings that they were first asked for with, the one that was asked for last at the end.
static MODELS: Mutex<Vec<(Settings, Arc<Pipeline>)>> = Mutex::new(Vec::new());

/// The model of these settings. Whoever asks for one that another thread is reading waits for it.
pub fn model(settings: &Settings) -> DaftResult<Arc<Pipeline>> {
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = models.iter().position(|(of, _)| settings.has_model_of(of)) {
        models[place..].rotate_left(1);
    } else {
        let opened = Arc::new(open(settings)?);
        if models.len() == KEPT {
            models.remove(0);
        }
        models.push((settings.clone(), opened));
    }
    Ok(Arc::clone(&models[models.len() - 1].1))
}

fn open(settings: &Settings) -> DaftResult<Pipeline> {
    let device = Cpu { precision: settings.precision()? };
    let folder = hub::find(&settings.model, &hub::Options::default())?;
    let pipeline = Pipeline::open_on(device, folder)?;
    Ok(match settings.max_tokens() {
        Some(tokens) => pipeline.max_tokens(tokens),
        None => pipeline,
    })
}
