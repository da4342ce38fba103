//! Lines of delimited text -> typed Arrow columns.
//!
//! As `formats/csv/lines.py` reads them; what that refuses is a doubt here, and so is a backslash
//! where that escapes.

use memchr::memmem::find;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::columns::push_text;
use crate::records::Records;
use crate::rows::{
    FetchedRows, ListRows, Plan, RowColumns, RowReader, read_fetched, read_list, row_columns,
    unknown,
};
use crate::scan::{Doubt, Vouched};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where fields of a line begin and end, and what is missing or too much of them.
struct Layout {
    delimiter: Vec<u8>,
    /// Empty where there is none.
    quote: Vec<u8>,
    null_text: Vec<u8>,
    /// Fields that a line has at least, and at most.
    least: usize,
    most: Option<usize>,
    /// The bytes at which a field without quotes may end, or be none.
    marks: [bool; 256],
}

/// Reads lines of one layout. Made once a task, used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct CsvReader {
    columns: RowColumns,
    /// Columns by the number of their field.
    takers: Vec<Vec<usize>>,
    layout: Layout,
    scratch: Vec<u8>,
}

#[pymethods]
impl CsvReader {
    #[new]
    #[pyo3(signature = (columns, places, *, delimiter, quote, backslash, null_text, least, most))]
    #[expect(clippy::too_many_arguments, reason = "each one has a name")]
    fn new(
        columns: Vec<(Plan<'_>, bool)>,
        places: Vec<usize>,
        delimiter: Vec<u8>,
        quote: Vec<u8>,
        backslash: bool,
        null_text: Vec<u8>,
        least: usize,
        most: Option<usize>,
    ) -> PyResult<Self> {
        let columns = row_columns(columns)?;
        if delimiter.is_empty() || places.len() != columns.len() {
            return unknown("layout", "no delimiter, or a column without a place");
        }
        let mut takers = vec![vec![]; places.iter().max().map_or(0, |most| most + 1)];
        for (column, place) in places.into_iter().enumerate() {
            takers[place].push(column);
        }
        let mut marks = [false; 256];
        let escape = if backslash { b'\\' } else { b'\n' };
        for mark in [b'\r', b'\n', escape, delimiter[0], *quote.first().unwrap_or(&b'\n')] {
            marks[usize::from(mark)] = true;
        }
        let layout = Layout { delimiter, quote, null_text, least, most, marks };
        Ok(Self { columns, takers, layout, scratch: vec![] })
    }

    /// See `rows::read_list`.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        payloads: &Bound<'py, PyList>,
        begins: Vec<usize>,
    ) -> PyResult<ListRows<'py>> {
        read_list(self, py, payloads, &begins)
    }

    /// See `rows::read_fetched`.
    fn read_fetched<'py>(
        &mut self,
        py: Python<'py>,
        fetched: Vec<PyRef<'py, Records>>,
        prefix: Vec<u8>,
    ) -> PyResult<FetchedRows<'py>> {
        read_fetched(self, py, &fetched, &prefix)
    }
}

impl RowReader for CsvReader {
    fn read_row(&mut self, payload: &[u8]) -> Vouched<()> {
        if payload.starts_with(BYTE_ORDER_MARK) || std::str::from_utf8(payload).is_err() {
            return Err(Doubt);
        }
        let line = payload
            .strip_suffix(b"\n")
            .map_or(payload, |line| line.strip_suffix(b"\r").unwrap_or(line));
        let (mut rest, mut count) = (Some(line), 0);
        while let Some(at) = rest {
            let field = self.layout.field(at, &mut self.scratch)?;
            for &number in self.takers.get(count).into_iter().flatten() {
                let (column, required) = &mut self.columns[number];
                match field.text {
                    _ if field.unescaped => push_text(column, &self.scratch)?,
                    Some(text) => push_text(column, text)?,
                    None if *required => return Err(Doubt),
                    None => column.push_null(),
                }
            }
            count += 1;
            rest = field.rest;
        }
        let layout = &self.layout;
        if count < layout.least || layout.most.is_some_and(|most| count > most) {
            return Err(Doubt);
        }
        for &number in self.takers.iter().skip(count).flatten() {
            let (column, required) = &mut self.columns[number];
            if *required {
                return Err(Doubt);
            }
            column.push_null();
        }
        Ok(())
    }

    fn columns(&mut self) -> &mut RowColumns {
        &mut self.columns
    }
}

/// A field of a line.
struct CsvField<'a> {
    /// None for a null.
    text: Option<&'a [u8]>,
    /// The text is in the scratch: it held doubled quotes.
    unescaped: bool,
    /// The line behind its delimiter; None of the last field.
    rest: Option<&'a [u8]>,
}

impl Layout {
    #[inline(always)]
    fn field<'a>(&self, line: &'a [u8], scratch: &mut Vec<u8>) -> Vouched<CsvField<'a>> {
        if !self.quote.is_empty() && line.starts_with(&self.quote) {
            return self.quoted(&line[self.quote.len()..], scratch);
        }
        let mut end = 0;
        loop {
            match line[end..].iter().position(|&byte| self.marks[usize::from(byte)]) {
                None => return Ok(self.plain(line, None)),
                Some(length) => end += length,
            }
            if line[end..].starts_with(&self.delimiter) {
                let rest = &line[end + self.delimiter.len()..];
                return Ok(self.plain(&line[..end], Some(rest)));
            }
            let byte = line[end];
            let no_text = byte == b'\r' || byte == b'\n' || byte == b'\\';
            if no_text || (!self.quote.is_empty() && line[end..].starts_with(&self.quote)) {
                return Err(Doubt);
            }
            end += 1;
        }
    }

    fn plain<'a>(&self, text: &'a [u8], rest: Option<&'a [u8]>) -> CsvField<'a> {
        let text = if text == self.null_text { None } else { Some(text) };
        CsvField { text, unescaped: false, rest }
    }

    /// The field whose quotes are open.
    fn quoted<'a>(&self, line: &'a [u8], scratch: &mut Vec<u8>) -> Vouched<CsvField<'a>> {
        let quote = &*self.quote;
        let mut end = find(line, quote).ok_or(Doubt)?;
        let mut unescaped = false;
        let backslash = self.marks[usize::from(b'\\')];
        if line[end + quote.len()..].starts_with(quote) {
            // With backslashes a quote is not doubled.
            if backslash {
                return Err(Doubt);
            }
            unescaped = true;
            scratch.clear();
            let mut from = 0;
            while line[end + quote.len()..].starts_with(quote) {
                scratch.extend_from_slice(&line[from..end + quote.len()]);
                from = end + 2 * quote.len();
                end = from + find(&line[from..], quote).ok_or(Doubt)?;
            }
            scratch.extend_from_slice(&line[from..end]);
        }
        let text = &line[..end];
        if backslash && text.contains(&b'\\') {
            return Err(Doubt);
        }
        let after = &line[end + quote.len()..];
        let rest = match after.strip_prefix(&*self.delimiter) {
            Some(rest) => Some(rest),
            None if after.is_empty() => None,
            None => return Err(Doubt),
        };
        Ok(CsvField { text: Some(text), unescaped, rest })
    }
}
