//! What the weights must be before the model is built: the model's own code trusts them and would panic.

use memory_core::{Error, Result};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

/// Longest header of a safetensors file, in bytes; those of static models are under a kilobyte.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Longest vector, as `EmbeddingModel` has it.
const MAX_DIMENSIONS: usize = 16_384;
/// Names under which models keep their table, as the model's own code looks for them.
const TABLE_NAMES: [&str; 3] = ["embeddings", "0", "embedding.weight"];

/// The table's shape, and how tokens find their row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) rows: usize,
    pub(super) dimensions: usize,
    /// How many tokens have a row named for them; `None`: a token's number is its row's.
    pub(super) mapped: Option<usize>,
}

impl Table {
    /// Whether each of `tokens` tokens has a row.
    pub(super) fn holds(&self, tokens: usize) -> bool {
        // A token beyond the mapping is looked up by its own number.
        tokens <= self.rows || self.mapped.is_some_and(|mapped| tokens <= mapped)
    }
}

/// Checks the tensors of a model.
///
/// # Errors
/// `invalid_argument`, saying what is wrong with `model.safetensors`.
pub(super) fn check(file: &[u8]) -> Result<Table> {
    let length = file.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    match length {
        None => return Err(wrong("it ends before its header")),
        Some(length) if length > MAX_HEADER_BYTES => return Err(wrong("its header is over 1 MiB")),
        Some(_) => {}
    }
    let tensors = SafeTensors::deserialize(file).map_err(|error| malformed(&error))?;
    let table = TABLE_NAMES
        .iter()
        .find_map(|name| tensors.tensor(name).ok())
        .ok_or_else(|| wrong(format!("it has no tensor named {}", TABLE_NAMES.join(" or "))))?;
    let &[rows, dimensions] = table.shape() else {
        return Err(wrong("its table of vectors does not have two dimensions"));
    };
    if rows == 0 || !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(wrong(format!(
            "its table is {rows} × {dimensions}; at least one row and 1 to {MAX_DIMENSIONS} dimensions are needed"
        )));
    }
    finite("its table of vectors", &table, &[Dtype::F32, Dtype::F16, Dtype::I8])?;
    if let Ok(weights) = tensors.tensor("weights") {
        finite("the tensor `weights`", &weights, &[Dtype::F32, Dtype::F16, Dtype::F64])?;
    }
    let mapped = match tensors.tensor("mapping") {
        Ok(mapping) => Some(check_mapping(&mapping, rows)?),
        Err(_) => None,
    };
    Ok(Table { rows, dimensions, mapped })
}

/// Numbers of the accepted kinds only, none of them infinite or not a number.
fn finite(what: &str, tensor: &TensorView<'_>, accepted: &[Dtype]) -> Result<()> {
    let dtype = tensor.dtype();
    if !accepted.contains(&dtype) {
        let names: Vec<String> = accepted.iter().map(|dtype| format!("{dtype:?}")).collect();
        return Err(wrong(format!("{what} is {dtype:?}; it must be {}", names.join(" or "))));
    }
    let data = tensor.data();
    let all_finite = match dtype {
        Dtype::F64 => data.as_chunks().0.iter().all(|bytes| f64::from_le_bytes(*bytes).is_finite()),
        Dtype::F32 => data.as_chunks().0.iter().all(|bytes| f32::from_le_bytes(*bytes).is_finite()),
        // IEEE 754 binary16: all five bits of the exponent set means infinite or not a number.
        Dtype::F16 => data.as_chunks().0.iter().all(|bytes| u16::from_le_bytes(*bytes) & 0x7C00 != 0x7C00),
        _ => true,
    };
    if all_finite { Ok(()) } else { Err(wrong(format!("{what} holds a value that is not a finite number"))) }
}

/// How many tokens are mapped, each to a row that is there.
fn check_mapping(mapping: &TensorView<'_>, rows: usize) -> Result<usize> {
    let data = mapping.data();
    let is_row = |row: i64| usize::try_from(row).is_ok_and(|row| row < rows);
    let (count, fits) = match mapping.dtype() {
        Dtype::I64 => {
            let all = data.as_chunks().0;
            (all.len(), all.iter().all(|bytes| is_row(i64::from_le_bytes(*bytes))))
        }
        Dtype::I32 => {
            let all = data.as_chunks().0;
            (all.len(), all.iter().all(|bytes| is_row(i64::from(i32::from_le_bytes(*bytes)))))
        }
        other => return Err(wrong(format!("the tensor `mapping` is {other:?}; it must be I64 or I32"))),
    };
    if fits { Ok(count) } else { Err(wrong("the tensor `mapping` names a row that is not there")) }
}

fn malformed(error: &SafeTensorError) -> Error {
    // The error's own text may hold parts of the file.
    wrong(match error {
        SafeTensorError::HeaderTooSmall => "it ends before its header",
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            "its header is longer than the file"
        }
        SafeTensorError::InvalidHeader
        | SafeTensorError::InvalidHeaderStart
        | SafeTensorError::InvalidHeaderDeserialization => "its header is not what safetensors write",
        SafeTensorError::MetadataIncompleteBuffer => "its header and its length contradict each other",
        SafeTensorError::InvalidOffset(_)
        | SafeTensorError::TensorInvalidInfo
        | SafeTensorError::ValidationOverflow => "its header places tensors where they cannot be",
        _ => "it is not a safetensors file",
    })
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("model.safetensors cannot be used: {what}; get the model's files anew"))
}
