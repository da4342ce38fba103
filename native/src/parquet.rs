//! A small Parquet file in one call: rows -> bytes, footer included.
//!
//! The schema is taken over from the footer of an empty file of the library, so it is the same. One
//! row group, one page a column. For files of a few thousand rows at most.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use zstd_safe::{CCtx, CParameter, compress_bound, get_error_name};

use crate::arrays::ArrowArray;
use crate::chunk::{Chunk, Number, pack};
use crate::given::{ArrowSchema, Given};
use crate::levels::{Leaf, Levels, Tree};
use crate::thrift::{BINARY, I16, I32, I64, LIST, Reader, STRUCT, Writer};

const MAGIC: &[u8] = b"PAR1";
const CREATED_BY: &[u8] =
    concat!("sluiceway version ", env!("CARGO_PKG_VERSION"), " (build native)").as_bytes();
const VERSION: i64 = 2;
const INT96: i64 = 3;
const BYTE_ARRAY: i64 = 6;

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const RLE_DICTIONARY: i64 = 8;

/// Compression with memory that is used again: to make it costs as much as a page.
enum Codec {
    Snappy(Box<snap::raw::Encoder>),
    Zstd(CCtx<'static>),
}

impl Codec {
    fn named(name: &str, level: i32) -> Result<Self, String> {
        match name {
            "snappy" => Ok(Self::Snappy(Box::new(snap::raw::Encoder::new()))),
            "zstd" => {
                let mut context = CCtx::create();
                context
                    .set_parameter(CParameter::CompressionLevel(level))
                    .map_err(|code| get_error_name(code).to_owned())?;
                Ok(Self::Zstd(context))
            }
            _ => Err(name.to_owned()),
        }
    }

    /// Its number in Parquet.
    fn number(&self) -> i64 {
        match self {
            Self::Snappy(_) => 1,
            Self::Zstd(_) => 6,
        }
    }

    fn compress(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Snappy(encoder) => encoder.compress_vec(bytes).map_err(|error| error.to_string()),
            Self::Zstd(context) => {
                let mut found = Vec::with_capacity(compress_bound(bytes.len()));
                context
                    .compress2(&mut found, bytes)
                    .map_err(|code| get_error_name(code).to_owned())?;
                Ok(found)
            }
        }
    }
}

/// A page's head and body.
struct Page {
    body: Vec<u8>,
    kind: i64,
    encoding: i64,
    values: usize,
}

/// What the footer says of a written column.
struct Written {
    begin: usize,
    dictionary_bytes: usize,
    plain_bytes: usize,
    stored_bytes: usize,
    values: usize,
    nulls: usize,
    codec: i64,
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    has_dictionary: bool,
}

type Bounds = Option<(Number, Number)>;

/// Makes the small files of one table. May be used by several threads at a time.
#[pyclass(module = "sluiceway_native", frozen)]
pub struct SmallParquet {
    tree: Tree,
    /// List of the schema's elements, of metadata or none, of the columns' orders.
    schema: Vec<u8>,
    metadata: Vec<u8>,
    orders: Vec<u8>,
    compression: (String, i32),
    codecs: Mutex<Vec<Codec>>,
}

#[pymethods]
impl SmallParquet {
    /// `template` is an empty file of the same schema.
    #[new]
    fn new(template: &[u8], compression: String, level: i32) -> PyResult<Self> {
        let codec = Codec::named(&compression, level).map_err(PyValueError::new_err)?;
        let refused = || PyValueError::new_err("the template is no Parquet file");
        let (bytes, _) = template.split_last_chunk::<8>().ok_or_else(refused)?;
        let tail = &template[bytes.len()..];
        let length = u32::from_le_bytes(tail[..4].try_into().expect("four bytes")) as usize;
        let begin = bytes.len().checked_sub(length).ok_or_else(refused)?;
        let mut reader = Reader { bytes, at: begin };
        let (mut tree, mut parts) = (None, [vec![], vec![], vec![]]);
        reader
            .fields(|reader, number, kind| {
                let begin = reader.at;
                match number {
                    2 => tree = Some(Tree::read(reader)?),
                    _ => reader.skip(kind)?,
                }
                if let Some(part) = [2, 5, 7].iter().position(|&wanted| wanted == number) {
                    parts[part] = bytes[begin..reader.at].to_vec();
                }
                Ok(())
            })
            .map_err(|_| refused())?;
        let tree = tree.ok_or_else(refused)?;
        let [schema, metadata, orders] = parts;
        let (compression, codecs) = ((compression, level), Mutex::new(vec![codec]));
        Ok(Self { tree, schema, metadata, orders, compression, codecs })
    }

    /// The file of some rows, by what `RecordBatch.__arrow_c_array__` returns.
    ///
    /// With it the least and greatest value of each column of numbers, days or instants.
    fn file<'py>(
        &self,
        py: Python<'py>,
        schema: &Bound<'py, PyCapsule>,
        rows: &Bound<'py, PyCapsule>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<Bounds>)> {
        let schema = schema.pointer_checked(Some(c_str!("arrow_schema")))?.cast::<ArrowSchema>();
        let rows = rows.pointer_checked(Some(c_str!("arrow_array")))?.cast::<ArrowArray>();
        // SAFETY: the capsules own what they point to, outlive this call, and were made together.
        let given = unsafe { Given::new(schema.as_ref(), rows.as_ref()) };
        let given = given.map_err(PyValueError::new_err)?;
        let made = py.detach(|| {
            let kept = self.codecs.lock().expect("no thread panics with it").pop();
            let (name, level) = &self.compression;
            let mut codec = kept.map_or_else(|| Codec::named(name, *level), Ok)?;
            let made = self.write(&given, &mut codec)?;
            self.codecs.lock().expect("no thread panics with it").push(codec);
            Ok(made)
        });
        let (file, bounds) = made.map_err(|error: String| PyValueError::new_err(error))?;
        Ok((PyBytes::new(py, &file), bounds))
    }
}

impl SmallParquet {
    fn write(&self, rows: &Given, codec: &mut Codec) -> Result<(Vec<u8>, Vec<Bounds>), String> {
        let mut arrays = vec![];
        let levels = self.tree.shred(rows, &mut arrays)?;
        let mut file = MAGIC.to_vec();
        let mut written = Vec::with_capacity(arrays.len());
        let mut bounds = Vec::with_capacity(arrays.len());
        for ((leaf, levels), array) in self.tree.leaves.iter().zip(&levels).zip(arrays) {
            let chunk = Chunk::encode(array, &levels.present, leaf.physical, leaf.width)
                .ok_or_else(|| {
                    let path = String::from_utf8_lossy(&leaf.path.join(&b'.')).into_owned();
                    format!("{path}: {:?} is not stored as type {}", array.kind, leaf.physical)
                })?;
            bounds.push(chunk.numbers);
            written.push(append(&mut file, leaf, levels, chunk, codec)?);
        }
        let begin = file.len();
        file.extend(self.footer(rows.length, &written));
        let length = (file.len() - begin) as u32;
        file.extend_from_slice(&length.to_le_bytes());
        file.extend_from_slice(MAGIC);
        Ok((file, bounds))
    }

    fn footer(&self, rows: usize, written: &[Written]) -> Vec<u8> {
        let mut to = Writer::default();
        to.item(|to| {
            to.number(1, I32, VERSION);
            to.field(2, LIST);
            to.bytes.extend_from_slice(&self.schema);
            to.number(3, I64, rows as i64);
            to.list(4, STRUCT, usize::from(rows > 0));
            if rows > 0 {
                to.item(|to| self.row_group(to, rows, written));
            }
            if !self.metadata.is_empty() {
                to.field(5, LIST);
                to.bytes.extend_from_slice(&self.metadata);
            }
            to.binary(6, CREATED_BY);
            if !self.orders.is_empty() {
                to.field(7, LIST);
                to.bytes.extend_from_slice(&self.orders);
            }
        });
        to.bytes
    }

    fn row_group(&self, to: &mut Writer, rows: usize, written: &[Written]) {
        to.list(1, STRUCT, written.len());
        for (leaf, of) in self.tree.leaves.iter().zip(written) {
            to.item(|to| {
                to.number(2, I64, of.begin as i64);
                to.nested(3, |to| of.describe(to, leaf));
            });
        }
        to.number(2, I64, written.iter().map(|of| of.plain_bytes as i64).sum());
        to.number(3, I64, rows as i64);
        to.number(5, I64, MAGIC.len() as i64);
        to.number(6, I64, written.iter().map(|of| of.stored_bytes as i64).sum());
        to.number(7, I16, 0);
    }
}

impl Written {
    /// `ColumnMetaData` of Parquet's footer.
    fn describe(&self, to: &mut Writer, leaf: &Leaf) {
        let data = if self.has_dictionary { RLE_DICTIONARY } else { PLAIN };
        let encodings = if self.has_dictionary { vec![PLAIN, RLE, data] } else { vec![PLAIN, RLE] };
        to.number(1, I32, leaf.physical);
        to.list(2, I32, encodings.len());
        encodings.into_iter().for_each(|encoding| to.zigzag(encoding));
        to.list(3, BINARY, leaf.path.len());
        leaf.path.iter().for_each(|name| to.text(name));
        to.number(4, I32, self.codec);
        to.number(5, I64, self.values as i64);
        to.number(6, I64, self.plain_bytes as i64);
        to.number(7, I64, self.stored_bytes as i64);
        to.number(9, I64, (self.begin + self.dictionary_bytes) as i64);
        if self.has_dictionary {
            to.number(11, I64, self.begin as i64);
        }
        // Nothing reads statistics of a type without an order, and some readers fail on them.
        if leaf.physical != INT96 {
            to.nested(12, |to| self.statistics(to, leaf));
        }
        to.list(13, STRUCT, 1 + usize::from(self.has_dictionary));
        if self.has_dictionary {
            to.item(|to| page_count(to, DICTIONARY_PAGE, PLAIN));
        }
        to.item(|to| page_count(to, DATA_PAGE, data));
    }

    fn statistics(&self, to: &mut Writer, leaf: &Leaf) {
        let Some((least, most)) = &self.bounds else {
            return to.number(3, I64, self.nulls as i64);
        };
        // Readers of before 2017 know these two, by an order that texts do not have.
        if leaf.physical != BYTE_ARRAY {
            to.binary(1, most);
            to.binary(2, least);
        }
        to.number(3, I64, self.nulls as i64);
        to.binary(5, most);
        to.binary(6, least);
    }
}

/// `PageEncodingStats` of one page.
fn page_count(to: &mut Writer, kind: i64, encoding: i64) {
    to.number(1, I32, kind);
    to.number(2, I32, encoding);
    to.number(3, I32, 1);
}

/// Append the pages of a column; compressed where that makes them smaller.
fn append(
    file: &mut Vec<u8>,
    leaf: &Leaf,
    levels: &Levels,
    chunk: Chunk,
    codec: &mut Codec,
) -> Result<Written, String> {
    let values = levels.defined.len().max(levels.repeated.len()).max(levels.present.len());
    let mut body = vec![];
    put_levels(&levels.repeated, leaf.most_repeated, &mut body);
    put_levels(&levels.defined, leaf.most_defined, &mut body);
    body.extend_from_slice(&chunk.values);
    let has_dictionary = chunk.dictionary.is_some();
    let mut pages = vec![];
    if let Some((body, values)) = chunk.dictionary {
        pages.push(Page { body, kind: DICTIONARY_PAGE, encoding: PLAIN, values });
    }
    let encoding = if has_dictionary { RLE_DICTIONARY } else { PLAIN };
    pages.push(Page { body, kind: DATA_PAGE, encoding, values });
    let compressed =
        pages.iter().map(|page| codec.compress(&page.body)).collect::<Result<Vec<_>, _>>()?;
    let size = |bodies: &mut dyn Iterator<Item = &Vec<u8>>| bodies.map(Vec::len).sum::<usize>();
    let pays = size(&mut compressed.iter()) < size(&mut pages.iter().map(|page| &page.body));
    let begin = file.len();
    let (mut dictionary_bytes, mut plain_bytes) = (0, 0);
    for (page, compressed) in pages.iter().zip(&compressed) {
        let stored = if pays { compressed } else { &page.body };
        let head = page.head(stored.len());
        plain_bytes += head.len() + page.body.len();
        file.extend_from_slice(&head);
        file.extend_from_slice(stored);
        if page.kind == DICTIONARY_PAGE {
            dictionary_bytes = file.len() - begin;
        }
    }
    Ok(Written {
        begin,
        dictionary_bytes,
        plain_bytes,
        stored_bytes: file.len() - begin,
        values,
        nulls: values - levels.present.len(),
        codec: if pays { codec.number() } else { 0 },
        bounds: chunk.bounds,
        has_dictionary,
    })
}

fn put_levels(levels: &[u8], most: u8, to: &mut Vec<u8>) {
    if most == 0 {
        return;
    }
    let begin = to.len();
    to.extend_from_slice(&[0; 4]);
    pack(levels, u8::BITS - most.leading_zeros(), to);
    let length = (to.len() - begin - 4) as u32;
    to[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

impl Page {
    fn head(&self, stored_bytes: usize) -> Vec<u8> {
        let mut to = Writer::default();
        to.item(|to| {
            to.number(1, I32, self.kind);
            to.number(2, I32, self.body.len() as i64);
            to.number(3, I32, stored_bytes as i64);
            if self.kind == DICTIONARY_PAGE {
                to.nested(7, |to| {
                    to.number(1, I32, self.values as i64);
                    to.number(2, I32, self.encoding);
                });
            } else {
                to.nested(5, |to| {
                    to.number(1, I32, self.values as i64);
                    to.number(2, I32, self.encoding);
                    to.number(3, I32, RLE);
                    to.number(4, I32, RLE);
                });
            }
        });
        to.bytes
    }
}
