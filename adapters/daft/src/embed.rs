//! The functions that Daft calls.

use crate::columns::{check_texts, given, taken, texts, vectors, vectors_type};
use crate::models::model;
use crate::settings::Settings;
use arrow_array::{ArrayRef, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields};
use daft_ext::prelude::{ArrowData, ArrowSchema, DaftError, DaftResult, DaftScalarFunction};
use std::ffi::CStr;
use std::sync::Arc;

/// Texts that are worked on together: enough for batches of like length, few enough that their tokens take little memory, however
/// large Daft's batches are.
const WINDOW: usize = 512;

/// The vectors of a column of texts.
pub struct Embed {
    pub name: &'static CStr,
    /// Whether a row that has no vector says why; else the first such row that is not null ends the query.
    pub tells_errors: bool,
}

/// For each row its vector, or why it has none.
type Rows = (Vec<Option<Vec<f32>>>, Vec<Option<String>>);

impl DaftScalarFunction for Embed {
    fn name(&self) -> &CStr {
        self.name
    }

    fn return_field(&self, args: &[ArrowSchema]) -> DaftResult<ArrowSchema> {
        let [texts, settings] = args else {
            return Err(wrong_number(args.len()));
        };
        check_texts("the column", Field::try_from(texts)?.data_type())?;
        check_texts("the settings", Field::try_from(settings)?.data_type())?;
        let (name, kind) = match self.tells_errors {
            true => ("embedded", DataType::Struct(fields())),
            false => ("vector", vectors_type()),
        };
        Ok((&Field::new(name, kind, true)).try_into()?)
    }

    fn call(&self, args: Vec<ArrowData>) -> DaftResult<ArrowData> {
        let number = args.len();
        let columns = args.into_iter().map(taken).collect::<DaftResult<Vec<ArrayRef>>>()?;
        let [column, settings] = &columns[..] else {
            return Err(wrong_number(number));
        };
        let texts = texts("the column", column)?;
        let (found, errors) = match texts.is_empty() {
            true => Rows::default(),
            false => embed(&texts, &one("the settings", settings)?)?,
        };
        let found = vectors(&found);
        if self.tells_errors {
            let columns: Vec<ArrayRef> = vec![Arc::new(found), Arc::new(StringArray::from(errors))];
            return given(&StructArray::try_new(fields(), columns, None)?);
        }
        let wrong = |(text, error): (&Option<&str>, Option<String>)| error.filter(|_| text.is_some());
        match texts.iter().zip(errors).find_map(wrong) {
            Some(error) => Err(DaftError::RuntimeError(error)),
            None => given(&found),
        }
    }
}

/// What a row of the function that tells errors has.
fn fields() -> Fields {
    Fields::from(vec![Field::new("vector", vectors_type(), true), Field::new("error", DataType::Utf8, true)])
}

fn wrong_number(arguments: usize) -> DaftError {
    DaftError::TypeError(format!(
        "the arguments are {arguments}; expected 2: a column of texts, and settings"
    ))
}

/// The settings, which a column says: once, or in every row.
fn one(what: &str, column: &ArrayRef) -> DaftResult<Settings> {
    let rows = texts(what, column)?;
    match rows.first() {
        Some(Some(first)) if rows.iter().all(|row| *row == Some(first)) => Settings::read(first),
        Some(Some(_)) => {
            Err(DaftError::TypeError(format!("{what} differ from row to row; expected one object")))
        }
        _ => Err(DaftError::TypeError(format!("{what} are null; expected a JSON object"))),
    }
}

fn embed(texts: &[Option<&str>], settings: &Settings) -> DaftResult<Rows> {
    let model = model(settings)?;
    let how = settings.embed()?;
    // What no text can be embedded with is an error of the call, and not of each row.
    model.dimensions(&how)?;
    let (mut found, mut errors) = (Vec::with_capacity(texts.len()), Vec::with_capacity(texts.len()));
    for window in texts.chunks(WINDOW) {
        let usable: Vec<&str> = window.iter().flatten().copied().collect();
        let mut results = model.embed_all(&usable, how).into_iter();
        for text in window {
            let result = text.and_then(|_| results.next());
            let (vector, error) = match result {
                Some(Ok(vector)) => (Some(vector), None),
                Some(Err(error)) => (None, Some(error.to_string())),
                None => (None, Some("the text is null; expected text".into())),
            };
            found.push(vector);
            errors.push(error);
        }
    }
    Ok((found, errors))
}
