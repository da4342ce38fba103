//! Rows of payloads, one after the other: those that a reader vouches for, and the others.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};

use crate::arrays::Present;
use crate::columns::Column;
use crate::decoder::{ARRAY_CAPSULE, column};
use crate::records::Records;
use crate::scan::{Doubt, Vouched};

/// Columns of the rows, and which of them must have a value.
pub type RowColumns = Vec<(Column, bool)>;
/// The columns, and the positions of suspects as int64.
pub type ListRows<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyBytes>);
/// As `ListRows`, and the positions of payloads without bytes.
pub type FetchedRows<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Reads single payloads into columns of its own.
pub trait RowReader: Send {
    /// Read a payload; where that is in doubt, some columns have one value more.
    fn read_row(&mut self, payload: &[u8]) -> Vouched<()>;

    fn columns(&mut self) -> &mut RowColumns;
}

/// Rows by what was made of them; the positions are int64.
#[derive(Default)]
pub struct Sorted {
    pub rows: usize,
    pub clean: usize,
    pub suspects: Vec<u8>,
    pub empty: Vec<u8>,
}

impl Sorted {
    fn read(&mut self, reader: &mut impl RowReader, payload: Option<&[u8]>) {
        let read = payload.ok_or(Doubt).and_then(|payload| reader.read_row(payload));
        match read {
            Ok(()) => self.clean += 1,
            Err(Doubt) => {
                for (column, _) in reader.columns() {
                    column.truncate(self.clean);
                }
                self.suspects.extend_from_slice(&(self.rows as i64).to_ne_bytes());
            }
        }
        self.rows += 1;
    }

    fn capsule<'py>(
        &self,
        py: Python<'py>,
        reader: &mut impl RowReader,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let columns = reader.columns().iter_mut().map(|(column, _)| column.take()).collect();
        PyCapsule::new_with_value(py, Present::of(self.clean).take(columns), ARRAY_CAPSULE)
    }
}

/// Read payloads, each from its place in `begins` on; without places each from its first byte.
pub fn read_list<'py>(
    reader: &mut impl RowReader,
    py: Python<'py>,
    payloads: &Bound<'py, PyList>,
    begins: &[usize],
) -> PyResult<ListRows<'py>> {
    let (mut block, mut ends) = (vec![], Vec::with_capacity(payloads.len()));
    for (row, item) in payloads.iter().enumerate() {
        let payload = item.cast::<PyBytes>()?.as_bytes();
        let begin = begins.get(row).copied().unwrap_or(0);
        block.extend_from_slice(payload.get(begin..).unwrap_or_default());
        ends.push(block.len());
    }
    if block.len() > i32::MAX as usize {
        return Err(PyValueError::new_err("too many bytes for one block"));
    }
    let mut found = Sorted::default();
    py.detach(|| {
        let mut begin = 0;
        for &end in &ends {
            found.read(reader, Some(&block[begin..end]));
            begin = end;
        }
    });
    Ok((found.capsule(py, reader)?, PyBytes::new(py, &found.suspects)))
}

/// Read what was fetched, where it lies: payloads that begin with `prefix`, each from there on.
///
/// Rows are numbered through all of `fetched`; the others are suspects.
pub fn read_fetched<'py>(
    reader: &mut impl RowReader,
    py: Python<'py>,
    fetched: &[PyRef<'py, Records>],
    prefix: &[u8],
) -> PyResult<FetchedRows<'py>> {
    let blocks: Vec<_> = fetched.iter().map(|records| records.block()).collect();
    if blocks.iter().map(|(block, _)| block.len()).sum::<usize>() > i32::MAX as usize {
        return Err(PyValueError::new_err("too many bytes for one block"));
    }
    let mut found = Sorted::default();
    py.detach(|| {
        for (block, starts) in &blocks {
            for bounds in starts.windows(2) {
                // A NUL stands behind each payload.
                let payload = &block[bounds[0]..bounds[1] - 1];
                if payload.is_empty() {
                    found.empty.extend_from_slice(&(found.rows as i64).to_ne_bytes());
                    found.rows += 1;
                } else {
                    found.read(reader, payload.strip_prefix(prefix));
                }
            }
        }
    });
    let capsule = found.capsule(py, reader)?;
    Ok((capsule, PyBytes::new(py, &found.suspects), PyBytes::new(py, &found.empty)))
}

// As Python plans them: tuples of a name, then what that needs.

pub type Plan<'py> = Bound<'py, PyTuple>;

pub fn row_columns(kinds: Vec<(Plan<'_>, bool)>) -> PyResult<RowColumns> {
    kinds.iter().map(|(kind, required)| Ok((column(kind)?, *required))).collect()
}

pub fn part<'py, T: FromPyObjectOwned<'py>>(plan: &Plan<'py>, place: usize) -> PyResult<T> {
    plan.get_item(place)?.extract().map_err(Into::into)
}

pub fn unknown<T>(what: &str, name: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("no {what}: {name}")))
}
