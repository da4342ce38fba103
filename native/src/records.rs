//! Records of one log from one fetch: buffers instead of an object each.

use memchr::memmem::Finder;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::scan::PADDING;

const ABSENT: u32 = u32::MAX;
/// What stands for a record time that the log does not have.
pub const NO_TIMESTAMP: i64 = -1;

type Bytes<'py> = Bound<'py, PyBytes>;
type Header<'py> = (Bytes<'py>, Option<Bytes<'py>>);

/// A piece of `Records::extra`.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    length: u32,
}

/// Where a record lies, and since when.
pub struct Place {
    pub offset: i64,
    /// `NO_TIMESTAMP` for none.
    pub timestamp_ms: i64,
    /// -1 when unknown.
    pub leader_epoch: i32,
}

struct HeaderAt {
    row: usize,
    name: Span,
    value: Span,
}

/// Rows of one log, offsets rising; a sequence of their values.
#[pyclass(module = "sluiceway_native")]
pub struct Records {
    #[pyo3(get)]
    pub topic: String,
    #[pyo3(get)]
    pub partition: i32,
    /// Values behind each other, a NUL after each and padding after the last.
    block: Vec<u8>,
    /// Where each value begins, and where the next one would.
    starts: Vec<usize>,
    nulls: Vec<usize>,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    leader_epochs: Vec<i32>,
    keys: Vec<Span>,
    headers: Vec<HeaderAt>,
    /// Bytes of keys and headers.
    extra: Vec<u8>,
}

impl Records {
    pub fn new(topic: String, partition: i32) -> Self {
        Self {
            topic,
            partition,
            block: vec![],
            starts: vec![0],
            nulls: vec![],
            offsets: vec![],
            timestamps: vec![],
            leader_epochs: vec![],
            keys: vec![],
            headers: vec![],
            extra: vec![],
        }
    }

    pub fn push(&mut self, place: Place, key: Option<&[u8]>, value: Option<&[u8]>) {
        if value.is_none() {
            self.nulls.push(self.offsets.len());
        }
        self.block.extend_from_slice(value.unwrap_or_default());
        self.block.push(0);
        self.starts.push(self.block.len());
        self.offsets.push(place.offset);
        self.timestamps.push(place.timestamp_ms);
        self.leader_epochs.push(place.leader_epoch);
        let key = self.keep(key);
        self.keys.push(key);
    }

    /// A header of the record that was pushed last.
    pub fn push_header(&mut self, name: &[u8], value: Option<&[u8]>) {
        let (name, value) = (self.keep(Some(name)), self.keep(value));
        self.headers.push(HeaderAt { row: self.offsets.len() - 1, name, value });
    }

    /// Called once, after the last push.
    pub fn finish(&mut self) {
        self.block.resize(self.block.len().max(1) + PADDING, 0);
    }

    /// The values as `Reader` takes them.
    pub fn block(&self) -> (&[u8], &[usize]) {
        (&self.block, &self.starts)
    }

    fn keep(&mut self, bytes: Option<&[u8]>) -> Span {
        let start = self.extra.len();
        self.extra.extend_from_slice(bytes.unwrap_or_default());
        Span { start, length: bytes.map_or(ABSENT, |bytes| bytes.len() as u32) }
    }

    fn bytes_of(&self, span: Span) -> Option<&[u8]> {
        (span.length != ABSENT).then(|| &self.extra[span.start..][..span.length as usize])
    }

    fn kept<'py>(&self, py: Python<'py>, span: Span) -> Option<Bytes<'py>> {
        self.bytes_of(span).map(|bytes| PyBytes::new(py, bytes))
    }

    fn check(&self, row: usize) -> PyResult<()> {
        if row < self.offsets.len() { Ok(()) } else { Err(PyIndexError::new_err(row)) }
    }
}

#[pymethods]
impl Records {
    /// Records of these values, at offsets from 0 on and of one time, as a fetch would have made
    /// them.
    #[new]
    #[pyo3(signature = (values, timestamp_ms = NO_TIMESTAMP))]
    fn of_values(values: Vec<Option<Bound<'_, PyBytes>>>, timestamp_ms: i64) -> Self {
        let mut records = Self::new(String::new(), 0);
        for (offset, value) in (0..).zip(&values) {
            let place = Place { offset, timestamp_ms, leader_epoch: -1 };
            records.push(place, None, value.as_ref().map(|value| value.as_bytes()));
        }
        records.finish();
        records
    }

    fn __len__(&self) -> usize {
        self.offsets.len()
    }

    /// The value of a row; None is a tombstone.
    fn __getitem__<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bytes<'py>>> {
        self.check(row)?;
        let value = &self.block[self.starts[row]..self.starts[row + 1] - 1];
        let null = self.nulls.binary_search(&row).is_ok();
        Ok((!null).then(|| PyBytes::new(py, value)))
    }

    /// Bytes of all values.
    #[getter]
    fn value_bytes(&self) -> usize {
        self.starts[self.offsets.len()] - self.offsets.len()
    }

    /// Offsets of the rows, as int64.
    fn offsets<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        int64_bytes(py, &self.offsets)
    }

    /// Record times in milliseconds, as int64; -1 where there is none.
    fn timestamps_ms<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        int64_bytes(py, &self.timestamps)
    }

    /// Of a row; -1 when unknown.
    fn leader_epoch(&self, row: usize) -> PyResult<i32> {
        self.check(row)?;
        Ok(self.leader_epochs[row])
    }

    fn key<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Option<Bytes<'py>>> {
        self.check(row)?;
        Ok(self.kept(py, self.keys[row]))
    }

    fn headers<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Vec<Header<'py>>> {
        self.check(row)?;
        let first = self.headers.partition_point(|header| header.row < row);
        let own = self.headers[first..].iter().take_while(|header| header.row == row);
        Ok(own
            .map(|header| {
                let name = self.kept(py, header.name).unwrap_or_else(|| PyBytes::new(py, b""));
                (name, self.kept(py, header.value))
            })
            .collect())
    }

    /// Whether a record has a header.
    #[getter]
    fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// The keys as values, at the same offsets and of the same times; headers are left out.
    fn keys(&self) -> Self {
        let mut records = Self::new(self.topic.clone(), self.partition);
        for (row, key) in self.keys.iter().enumerate() {
            let place = Place {
                offset: self.offsets[row],
                timestamp_ms: self.timestamps[row],
                leader_epoch: self.leader_epochs[row],
            };
            records.push(place, None, self.bytes_of(*key));
        }
        records.finish();
        records
    }

    /// Rows whose value holds one of these texts, rising, as int64.
    fn rows_with<'py>(&self, py: Python<'py>, texts: Vec<Vec<u8>>) -> PyResult<Bytes<'py>> {
        if texts.iter().any(|text| text.is_empty() || text.contains(&0)) {
            return Err(PyValueError::new_err("a text to look for is empty or holds a NUL"));
        }
        let rows = py.detach(|| {
            // The NUL behind each value keeps a text from being found across two of them.
            let block = &self.block[..self.starts[self.offsets.len()]];
            let mut rows = vec![];
            for text in &texts {
                let finder = Finder::new(text);
                let mut from = 0;
                while let Some(found) = finder.find(&block[from..]) {
                    let row = self.starts.partition_point(|start| *start <= from + found) - 1;
                    rows.push(row as i64);
                    from = self.starts[row + 1];
                }
            }
            rows.sort_unstable();
            rows.dedup();
            rows
        });
        Ok(int64_bytes(py, &rows))
    }

    /// Keep the first `count` rows.
    fn truncate(&mut self, count: usize) {
        self.starts.truncate(count + 1);
        self.offsets.truncate(count);
        self.timestamps.truncate(count);
        self.leader_epochs.truncate(count);
        self.keys.truncate(count);
    }
}

/// Numbers as the bytes that they are.
pub fn int64_bytes<'py>(py: Python<'py>, values: &[i64]) -> Bytes<'py> {
    // SAFETY: plain numbers, read as the bytes that they are.
    let bytes = unsafe {
        std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), std::mem::size_of_val(values))
    };
    PyBytes::new(py, bytes)
}
