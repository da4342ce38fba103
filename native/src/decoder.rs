//! The decoder as Python sees it: payloads in, one Arrow array and the rows in doubt out.

use std::ffi::CStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};

use crate::arrays::{ArrowArray, Offsets, Present, Texts, Values};
use crate::columns::{Column, Unit};
use crate::objects::{DoubtedValue, Fields};
use crate::records::Records;
use crate::rows::Sorted;
use crate::scan::{Doubt, PADDING, Reader, Vouched};

pub const ARRAY_CAPSULE: &CStr = c"arrow_array";
/// Offsets in a column have 32 bits, and no column holds more bytes than its payloads.
const MAX_BLOCK_BYTES: usize = 1 << 30;

/// Reads payloads into typed columns. Made once a task, used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct JsonReader {
    columns: Fields,
    /// What each payload begins with, an object's brace among it; the columns are in the value
    /// behind it, which is the object's last.
    prefix: Vec<u8>,
    block: Vec<u8>,
    starts: Vec<usize>,
    scratch: Vec<u8>,
    /// For each suspect of the last read, see `doubts`.
    doubts: Vec<i64>,
}

#[pymethods]
impl JsonReader {
    #[new]
    #[pyo3(signature = (columns, prefix = vec![]))]
    fn new(
        columns: Vec<(Vec<String>, bool, Bound<'_, PyTuple>)>,
        prefix: Vec<u8>,
    ) -> PyResult<Self> {
        if prefix.contains(&0) {
            return Err(PyValueError::new_err("a prefix holds a NUL"));
        }
        let mut fields = Fields::default();
        for (number, (path, required, kind)) in columns.into_iter().enumerate() {
            if path.is_empty() {
                return Err(PyValueError::new_err("a column has no path"));
            }
            fields.add(&path, column(&kind)?, number, required);
        }
        fields.step_over_doubts();
        let (block, starts, scratch, doubts) = (vec![], vec![], vec![], vec![]);
        Ok(Self { columns: fields, prefix, block, starts, scratch, doubts })
    }

    /// Read payloads from number `start` on, as many as make a block.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        payloads: &Bound<'py, PyList>,
        start: usize,
    ) -> PyResult<(Bound<'py, PyCapsule>, usize, Bound<'py, PyBytes>)> {
        self.gather(payloads, start)?;
        let taken = self.starts.len() - 1;
        let (array, suspects) = py.detach(|| self.decode());
        let capsule = PyCapsule::new_with_value(py, array, ARRAY_CAPSULE)?;
        Ok((capsule, start + taken, PyBytes::new(py, &suspects)))
    }

    /// Read what was fetched: the columns, and suspects and rows without bytes, as int64.
    ///
    /// Rows are numbered through all of `fetched`, whose values are below 1 GiB together.
    fn read_fetched<'py>(
        &mut self,
        py: Python<'py>,
        fetched: Vec<PyRef<'py, Records>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let blocks: Vec<_> = fetched.iter().map(|records| records.block()).collect();
        if blocks.iter().map(|(block, _)| block.len()).sum::<usize>() > MAX_BLOCK_BYTES {
            return Err(PyValueError::new_err("too many bytes for one block"));
        }
        let mut found = Sorted::default();
        self.doubts.clear();
        py.detach(|| {
            for (block, starts) in &blocks {
                self.decode_block(block, starts, &mut found);
            }
        });
        let array = Present::of(found.clean).take(self.columns.take());
        let capsule = PyCapsule::new_with_value(py, array, ARRAY_CAPSULE)?;
        let (suspects, empty) = (&found.suspects, &found.empty);
        Ok((capsule, PyBytes::new(py, suspects), PyBytes::new(py, empty)))
    }

    /// Of the last read, three int64 for each suspect: the only column that does not vouch for it,
    /// and where that column's value begins and ends in the payload; the column is -1 where the
    /// doubt is about the payload or about several columns.
    fn doubts<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.doubts.iter().flat_map(|one| one.to_ne_bytes()).collect();
        PyBytes::new(py, &bytes)
    }
}

impl JsonReader {
    /// Copy payloads behind each other, a NUL after each.
    fn gather(&mut self, payloads: &Bound<'_, PyList>, start: usize) -> PyResult<()> {
        self.block.clear();
        self.starts.clear();
        self.starts.push(0);
        for index in start..payloads.len() {
            let item = payloads.get_item(index)?;
            let payload = item.cast::<PyBytes>()?.as_bytes();
            let size = self.block.len() + payload.len();
            if size > MAX_BLOCK_BYTES && self.starts.len() > 1 {
                break;
            }
            self.block.extend_from_slice(payload);
            self.block.push(0);
            self.starts.push(self.block.len());
        }
        self.block.resize(self.block.len().max(1) + PADDING, 0);
        Ok(())
    }

    /// Read the gathered block: its clean rows, and the positions of the others as int64.
    fn decode(&mut self) -> (ArrowArray, Vec<u8>) {
        let (block, starts) = (std::mem::take(&mut self.block), std::mem::take(&mut self.starts));
        let mut found = Sorted::default();
        self.doubts.clear();
        self.decode_block(&block, &starts, &mut found);
        (self.block, self.starts) = (block, starts);
        (Present::of(found.clean).take(self.columns.take()), found.suspects)
    }

    /// Read payloads that stand behind each other, a NUL after each.
    fn decode_block(&mut self, block: &[u8], starts: &[usize], found: &mut Sorted) {
        let mut reader = Reader::new(block, std::mem::take(&mut self.scratch));
        for bounds in starts.windows(2) {
            let row = (found.rows as i64).to_ne_bytes();
            found.rows += 1;
            if bounds[1] - bounds[0] == 1 {
                found.empty.extend_from_slice(&row);
                continue;
            }
            let payload = &block[bounds[0]..bounds[1] - 1];
            let read = if self.prefix.is_empty() {
                reader.go_to(bounds[0]);
                read_row(&mut self.columns, &mut reader, bounds[1] - 1)
            } else if payload.starts_with(&self.prefix) {
                reader.go_inside(bounds[0] + self.prefix.len());
                read_last(&mut self.columns, &mut reader, bounds[1] - 1)
            } else {
                Err(Doubt)
            };
            let doubted = read.map(|()| self.columns.doubted());
            if doubted.is_ok_and(<[_]>::is_empty) {
                found.clean += 1;
                continue;
            }
            self.doubts.extend(match doubted {
                Ok(&[DoubtedValue { column, begin, end }]) => {
                    [column, begin - bounds[0], end - bounds[0]].map(|number| number as i64)
                }
                _ => [-1, 0, 0],
            });
            self.columns.truncate(found.clean);
            found.suspects.extend_from_slice(&row);
        }
        self.scratch = reader.scratch;
    }
}

#[inline(always)]
fn read_row(columns: &mut Fields, reader: &mut Reader, end: usize) -> Vouched<()> {
    reader.skip_space();
    columns.read(reader)?;
    reader.skip_space();
    // A NUL inside of the payload ends it too early.
    if reader.position() == end { Ok(()) } else { Err(Doubt) }
}

/// As `read_row`, of the last value of an object.
fn read_last(columns: &mut Fields, reader: &mut Reader, end: usize) -> Vouched<()> {
    columns.read(reader)?;
    reader.skip_space();
    reader.expect(b'}')?;
    reader.skip_space();
    if reader.position() == end { Ok(()) } else { Err(Doubt) }
}

/// A column of a type, told as a tuple: its kind, then what the kind needs.
pub fn column(told: &Bound<'_, PyTuple>) -> PyResult<Column> {
    let kind: String = told.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "boolean" => Column::Boolean(Default::default()),
        "integer" => integers(told.get_item(1)?.extract()?)?,
        "float" => floats(told.get_item(1)?.extract()?)?,
        "decimal" => decimals(told.get_item(1)?.extract()?, told.get_item(2)?.extract()?)?,
        "string" => Column::Text(Texts::default()),
        "bounded" => Column::Bounded {
            texts: Texts::default(),
            most: told.get_item(1)?.extract()?,
            padded: told.get_item(2)?.extract()?,
        },
        "bytes" => Column::Bytes(Texts::default()),
        "connect" => Column::Connect {
            inner: Box::new(column(told.get_item(1)?.cast()?)?),
            scale: told.get_item(2)?.extract()?,
        },
        "moment" => Column::Moment {
            values: Values::default(),
            unit: Unit { times: told.get_item(1)?.extract()?, per: told.get_item(2)?.extract()? },
        },
        "day" => Column::Day(Values::default()),
        "never" => Column::Never(Box::new(column(told.get_item(1)?.cast()?)?)),
        "date" => Column::Date(Values::default()),
        "instant" => Column::Instant(Values::default()),
        "epoch" => {
            Column::Epoch { values: Values::default(), places: told.get_item(1)?.extract()? }
        }
        "list" => Column::List {
            offsets: Offsets::default(),
            items: Box::new(column(told.get_item(1)?.cast()?)?),
        },
        "map" => map_of(column(told.get_item(1)?.cast()?)?, column(told.get_item(2)?.cast()?)?)?,
        "struct" => struct_of(told.get_item(1)?.extract()?)?,
        _ => return Err(PyValueError::new_err(format!("no kind of column: {kind}"))),
    })
}

fn integers(bits: u32) -> PyResult<Column> {
    match bits {
        8 => Ok(Column::Int8(Values::default())),
        16 => Ok(Column::Int16(Values::default())),
        32 => Ok(Column::Int32(Values::default())),
        64 => Ok(Column::Int64(Values::default())),
        _ => Err(PyValueError::new_err(format!("no integer has {bits} bits"))),
    }
}

fn floats(bits: u32) -> PyResult<Column> {
    match bits {
        32 => Ok(Column::Float32(Values::default())),
        64 => Ok(Column::Float64(Values::default())),
        _ => Err(PyValueError::new_err(format!("no float has {bits} bits"))),
    }
}

fn decimals(precision: u32, scale: i32) -> PyResult<Column> {
    if !(1..=38).contains(&precision) || !(0..=38).contains(&scale) {
        return Err(PyValueError::new_err(format!("no decimal is ({precision},{scale})")));
    }
    Ok(Column::Decimal { values: Values::default(), scale, limit: 10_i128.pow(precision) })
}

fn map_of(keys: Column, values: Column) -> PyResult<Column> {
    match keys {
        Column::Text(_)
        | Column::Int8(_)
        | Column::Int16(_)
        | Column::Int32(_)
        | Column::Int64(_) => Ok(Column::Map {
            offsets: Offsets::default(),
            keys: Box::new(keys),
            values: Box::new(values),
        }),
        _ => Err(PyValueError::new_err("a map has string or integer keys")),
    }
}

fn struct_of(told: Vec<(String, bool, Bound<'_, PyTuple>)>) -> PyResult<Column> {
    let mut fields = Fields::default();
    for (number, (name, required, kind)) in told.into_iter().enumerate() {
        fields.add(&[name], column(&kind)?, number, required);
    }
    Ok(Column::Struct { present: Present::default(), fields })
}
