//! Columns of Arrow: texts as they come from Daft, vectors as they go there.

use arrow_array::builder::{Float32Builder, LargeListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, LargeListArray, make_array};
use arrow_schema::{DataType, Field};
use daft_ext::prelude::{ArrowData, DaftError, DaftResult};

/// The type of a column of vectors.
pub fn vectors_type() -> DataType {
    DataType::LargeList(Field::new("item", DataType::Float32, true).into())
}

/// Whether a column of this type has texts; one of nulls alone has any type.
pub fn check_texts(what: &str, kind: &DataType) -> DaftResult<()> {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => Ok(()),
        _ => Err(DaftError::TypeError(format!("{what} is of type {kind}; expected text"))),
    }
}

/// A column that Daft hands over.
#[allow(unsafe_code, reason = "Arrow's C interface")]
pub fn taken(data: ArrowData) -> DaftResult<ArrayRef> {
    let schema = data.schema.into();
    // SAFETY: Daft exports both by the C interface of Arrow for this call and leaves them to it; what they point to stays until the
    // array is dropped, which releases it.
    let data = unsafe { from_ffi(data.array.into(), &schema) }?;
    Ok(make_array(data))
}

/// A column as Daft takes it.
pub fn given(array: &dyn Array) -> DaftResult<ArrowData> {
    let (array, schema) = to_ffi(&array.to_data())?;
    Ok(ArrowData { schema: schema.into(), array: array.into() })
}

/// The texts of a column, or null for each that is null.
pub fn texts<'a>(what: &str, column: &'a dyn Array) -> DaftResult<Vec<Option<&'a str>>> {
    check_texts(what, column.data_type())?;
    Ok(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().collect(),
        DataType::Utf8View => column.as_string_view().iter().collect(),
        _ => vec![None; column.len()],
    })
}

/// A column of vectors, null where there is none.
pub fn vectors(vectors: &[Option<Vec<f32>>]) -> LargeListArray {
    let numbers = vectors.iter().flatten().map(Vec::len).sum();
    let mut column = LargeListBuilder::with_capacity(Float32Builder::with_capacity(numbers), vectors.len());
    for vector in vectors {
        column.values().append_slice(vector.as_deref().unwrap_or_default());
        column.append(vector.is_some());
    }
    column.finish()
}
