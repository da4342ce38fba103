//! Avro's binary encoding -> typed Arrow columns, by the schema that payloads were written with.
//!
//! As `formats/avro/reader.py` reads it; what that refuses is a doubt here.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::base64;
use crate::columns::{Column, Unit, finish_map, push_text};
use crate::cursor::{Cursor, zigzag};
use crate::push::{
    push_boolean, push_bytes, push_day, push_float, push_instant, push_number, push_symbol,
};
use crate::records::Records;
use crate::rows::{
    FetchedRows, ListRows, Plan, RowColumns, RowReader, part, read_fetched, read_list, row_columns,
    unknown,
};
use crate::scan::{Doubt, Vouched};

/// Items without a byte of their own: nothing in a payload bounds their number.
const MAX_EMPTY_ITEMS: usize = 10_000;
const MAX_DECIMAL_BYTES: usize = 512;
const MAX_BIG_SCALE: i64 = 500;

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn long(&mut self) -> Vouched<i64> {
        Ok(zigzag(self.varint()?))
    }

    fn int(&mut self) -> Vouched<i32> {
        i32::try_from(self.long()?).map_err(|_| Doubt)
    }

    /// Bytes behind their length.
    #[inline(always)]
    fn sized(&mut self) -> Vouched<&'a [u8]> {
        let length = usize::try_from(self.long()?).map_err(|_| Doubt)?;
        self.bytes(length)
    }

    fn digits(&mut self, size: Option<usize>) -> Vouched<&'a [u8]> {
        let found = match size {
            Some(size) => self.bytes(size)?,
            None => self.sized()?,
        };
        if (1..=MAX_DECIMAL_BYTES).contains(&found.len()) { Ok(found) } else { Err(Doubt) }
    }

    fn boolean(&mut self) -> Vouched<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Doubt),
        }
    }

    /// A number below `count`.
    #[inline(always)]
    fn index(&mut self, count: usize) -> Vouched<usize> {
        let found = usize::try_from(self.long()?).map_err(|_| Doubt)?;
        if found < count { Ok(found) } else { Err(Doubt) }
    }

    /// Read the items of an array or map, each by `item`.
    fn items(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Vouched<()>,
    ) -> Vouched<()> {
        self.enter()?;
        let mut before = 0;
        loop {
            let told = self.long()?;
            if told == 0 {
                break;
            }
            let count = usize::try_from(told.unsigned_abs()).map_err(|_| Doubt)?;
            let mut left = None;
            if told < 0 {
                let size = usize::try_from(self.long()?).map_err(|_| Doubt)?;
                left = Some(self.rest.len().checked_sub(size).ok_or(Doubt)?);
            }
            let room = match self.rest.len().checked_div(least) {
                Some(room) => room,
                None => MAX_EMPTY_ITEMS.saturating_sub(before),
            };
            if count > room {
                return Err(Doubt);
            }
            for _ in 0..count {
                item(self)?;
            }
            before += count;
            if left.is_some_and(|left| left != self.rest.len()) {
                return Err(Doubt);
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// A value that nobody wants; its bytes are checked all the same.
enum Skip {
    Null,
    Boolean,
    Int,
    Long,
    Size(usize),
    Sized,
    Digits(Option<usize>),
    BigDecimal,
    Enum(usize),
    Array(usize, Box<Skip>),
    Map(Box<Skip>),
    Union(Vec<Skip>),
    /// By its number: it may hold itself.
    Record(usize),
}

impl Skip {
    fn over(&self, records: &[Vec<Skip>], cursor: &mut Cursor) -> Vouched<()> {
        match self {
            Self::Null => Ok(()),
            Self::Boolean => cursor.boolean().map(drop),
            Self::Int => cursor.int().map(drop),
            Self::Long => cursor.long().map(drop),
            Self::Size(size) => cursor.bytes(*size).map(drop),
            Self::Sized => cursor.sized().map(drop),
            Self::Digits(size) => cursor.digits(*size).map(drop),
            Self::BigDecimal => {
                let mut inner = Cursor { rest: cursor.sized()?, depth: 0 };
                inner.digits(None)?;
                let scale = i64::from(inner.int()?);
                let fits = inner.rest.is_empty() && scale.abs() <= MAX_BIG_SCALE;
                if fits { Ok(()) } else { Err(Doubt) }
            }
            Self::Enum(count) => cursor.index(*count).map(drop),
            Self::Array(least, item) => cursor.items(*least, |at| item.over(records, at)),
            Self::Map(value) => cursor.items(1, |at| {
                at.sized()?;
                value.over(records, at)
            }),
            Self::Union(branches) => {
                let branch = cursor.index(branches.len())?;
                branches[branch].over(records, cursor)
            }
            Self::Record(number) => {
                cursor.enter()?;
                records[*number].iter().try_for_each(|field| field.over(records, cursor))?;
                cursor.depth -= 1;
                Ok(())
            }
        }
    }
}

/// How the bytes of a value become a column's.
enum How {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    Bytes(Option<usize>),
    Uuid,
    Symbols(Vec<Vec<u8>>),
    Decimal(i32, Option<usize>),
    /// A record of the scale and the digits.
    Variable,
    /// Whether the number has 32 bits.
    Time(Unit, bool),
    Day,
    List(usize, Box<How>),
    Map(Box<How>),
    Record(Vec<Part>, Vec<(usize, bool)>),
    Union(Vec<How>),
    Never,
}

/// A field of a record that becomes a struct.
enum Part {
    Skip(Skip),
    Field { number: usize, how: How, required: bool },
}

impl How {
    /// Read a value into a column; whether it is one, and not null.
    #[inline(always)]
    fn read(
        &self,
        column: &mut Column,
        records: &[Vec<Skip>],
        cursor: &mut Cursor,
    ) -> Vouched<bool> {
        match self {
            Self::Null => {
                column.push_null();
                return Ok(false);
            }
            Self::Union(branches) => {
                let branch = cursor.index(branches.len())?;
                return branches[branch].read_inner(column, records, cursor);
            }
            Self::Text => push_text(column, cursor.sized()?)?,
            Self::Int => push_number(column, i64::from(cursor.int()?))?,
            Self::Long => push_number(column, cursor.long()?)?,
            _ => self.read_other(column, records, cursor)?,
        }
        Ok(true)
    }

    #[inline(never)]
    fn read_inner(
        &self,
        column: &mut Column,
        records: &[Vec<Skip>],
        cursor: &mut Cursor,
    ) -> Vouched<bool> {
        self.read(column, records, cursor)
    }

    fn read_other(
        &self,
        column: &mut Column,
        records: &[Vec<Skip>],
        cursor: &mut Cursor,
    ) -> Vouched<()> {
        match self {
            Self::Boolean => push_boolean(column, cursor.boolean()?),
            Self::Float => {
                let found = f32::from_le_bytes(cursor.array()?);
                push_float(column, f64::from(found))
            }
            Self::Double => push_float(column, f64::from_le_bytes(cursor.array()?)),
            Self::Bytes(size) => {
                let found = match size {
                    Some(size) => cursor.bytes(*size)?,
                    None => cursor.sized()?,
                };
                push_bytes(column, found)
            }
            Self::Uuid => push_text(column, &uuid_text(cursor.array()?)),
            Self::Symbols(symbols) => push_symbol(column, &symbols[cursor.index(symbols.len())?]),
            Self::Decimal(scale, size) => {
                column.push_scaled(base64::signed(cursor.digits(*size)?)?, *scale)
            }
            Self::Variable => {
                cursor.enter()?;
                let scale = cursor.int()?;
                if i64::from(scale).abs() > MAX_BIG_SCALE {
                    return Err(Doubt);
                }
                let digits = base64::signed(cursor.sized()?)?;
                cursor.depth -= 1;
                column.push_scaled(digits, scale)
            }
            Self::Time(unit, narrow) => {
                let number = if *narrow { i64::from(cursor.int()?) } else { cursor.long()? };
                push_instant(column, unit.instant(number)?)
            }
            Self::Day => push_day(column, i64::from(cursor.int()?)),
            Self::List(least, item) => match column {
                Column::List { offsets, items } => {
                    cursor.items(*least, |at| item.read_inner(items, records, at).map(drop))?;
                    offsets.push(items.len());
                    Ok(())
                }
                _ => Err(Doubt),
            },
            Self::Map(value) => match column {
                Column::Map { offsets, keys, values } => {
                    cursor.items(1, |at| {
                        push_text(keys, at.sized()?)?;
                        value.read_inner(values, records, at).map(drop)
                    })?;
                    finish_map(offsets, keys)
                }
                _ => Err(Doubt),
            },
            Self::Record(parts, missing) => read_struct(parts, missing, column, records, cursor),
            _ => Err(Doubt),
        }
    }
}

fn read_struct(
    parts: &[Part],
    missing: &[(usize, bool)],
    column: &mut Column,
    records: &[Vec<Skip>],
    cursor: &mut Cursor,
) -> Vouched<()> {
    let Column::Struct { present, fields } = column else { return Err(Doubt) };
    cursor.enter()?;
    for part in parts {
        match part {
            Part::Skip(skip) => skip.over(records, cursor)?,
            Part::Field { number, how, required } => {
                let there = how.read_inner(fields.column(*number), records, cursor)?;
                if *required && !there {
                    return Err(Doubt);
                }
            }
        }
    }
    for &(number, required) in missing {
        if required {
            return Err(Doubt);
        }
        fields.column(number).push_null();
    }
    cursor.depth -= 1;
    present.push();
    Ok(())
}

fn uuid_text(bytes: [u8; 16]) -> Vec<u8> {
    let mut found = Vec::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            found.push(b'-');
        }
        found.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    found
}

/// What the bytes of a field of the whole record are for.
enum Step {
    Skip(Skip),
    Column {
        number: usize,
        how: How,
    },
    /// A record whose fields are wanted one by one; with a branch, or null in the other.
    Inside {
        steps: Vec<Step>,
        branch: Option<usize>,
        columns: Vec<usize>,
    },
    /// A column of which the record has nothing.
    Absent(usize),
    /// Several columns want it.
    Each(Vec<Step>),
}

/// Reads payloads of one schema. Made once a schema and task, used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct AvroReader {
    columns: RowColumns,
    steps: Vec<Step>,
    records: Vec<Vec<Skip>>,
}

#[pymethods]
impl AvroReader {
    #[new]
    fn new(
        columns: Vec<(Bound<'_, PyTuple>, bool)>,
        steps: Vec<Bound<'_, PyTuple>>,
        records: Vec<Vec<Bound<'_, PyTuple>>>,
    ) -> PyResult<Self> {
        let columns = row_columns(columns)?;
        let records = records.iter().map(|fields| fields.iter().map(skip_of).collect());
        let records = records.collect::<PyResult<Vec<Vec<_>>>>()?;
        let steps =
            steps.iter().map(|told| step_of(told, columns.len())).collect::<PyResult<_>>()?;
        Ok(Self { columns, steps, records })
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

impl RowReader for AvroReader {
    fn read_row(&mut self, payload: &[u8]) -> Vouched<()> {
        let mut cursor = Cursor { rest: payload, depth: 0 };
        cursor.enter()?;
        for step in &self.steps {
            step.read(&mut self.columns, &self.records, &mut cursor)?;
        }
        if cursor.rest.is_empty() { Ok(()) } else { Err(Doubt) }
    }

    fn columns(&mut self) -> &mut RowColumns {
        &mut self.columns
    }
}

impl Step {
    fn read(
        &self,
        columns: &mut [(Column, bool)],
        records: &[Vec<Skip>],
        cursor: &mut Cursor,
    ) -> Vouched<()> {
        match self {
            Self::Skip(skip) => skip.over(records, cursor),
            Self::Column { number, how } => {
                let (column, required) = &mut columns[*number];
                let there = how.read(column, records, cursor)?;
                if *required && !there { Err(Doubt) } else { Ok(()) }
            }
            Self::Inside { steps, branch, columns: inside } => {
                if let Some(branch) = branch
                    && cursor.index(2)? != *branch
                {
                    return inside.iter().try_for_each(|&number| {
                        let (column, required) = &mut columns[number];
                        column.push_null();
                        if *required { Err(Doubt) } else { Ok(()) }
                    });
                }
                cursor.enter()?;
                steps.iter().try_for_each(|step| step.read(columns, records, cursor))?;
                cursor.depth -= 1;
                Ok(())
            }
            Self::Absent(number) => {
                let (column, required) = &mut columns[*number];
                column.push_null();
                if *required { Err(Doubt) } else { Ok(()) }
            }
            Self::Each(steps) => {
                let (rest, depth) = (cursor.rest, cursor.depth);
                for step in steps {
                    (cursor.rest, cursor.depth) = (rest, depth);
                    step.read(columns, records, cursor)?;
                }
                Ok(())
            }
        }
    }
}

// As Python plans them: tuples of a name, then what that needs.

fn skip_of(told: &Plan) -> PyResult<Skip> {
    let name: String = part(told, 0)?;
    Ok(match name.as_str() {
        "null" => Skip::Null,
        "boolean" => Skip::Boolean,
        "int" => Skip::Int,
        "long" => Skip::Long,
        "size" => Skip::Size(part(told, 1)?),
        "sized" => Skip::Sized,
        "digits" => Skip::Digits(part(told, 1)?),
        "big-decimal" => Skip::BigDecimal,
        "enum" => Skip::Enum(part(told, 1)?),
        "array" => Skip::Array(part(told, 1)?, Box::new(skip_of(&part(told, 2)?)?)),
        "map" => Skip::Map(Box::new(skip_of(&part(told, 1)?)?)),
        "union" => {
            let branches: Vec<Plan> = part(told, 1)?;
            Skip::Union(branches.iter().map(skip_of).collect::<PyResult<_>>()?)
        }
        "record" => Skip::Record(part(told, 1)?),
        _ => return unknown("value to skip", &name),
    })
}

fn how_of(told: &Plan) -> PyResult<How> {
    let name: String = part(told, 0)?;
    Ok(match name.as_str() {
        "null" => How::Null,
        "boolean" => How::Boolean,
        "int" => How::Int,
        "long" => How::Long,
        "float" => How::Float,
        "double" => How::Double,
        "text" => How::Text,
        "bytes" => How::Bytes(part(told, 1)?),
        "uuid" => How::Uuid,
        "symbols" => How::Symbols(part(told, 1)?),
        "decimal" => How::Decimal(part(told, 1)?, part(told, 2)?),
        "variable" => How::Variable,
        "time" => How::Time(Unit { times: part(told, 1)?, per: part(told, 2)? }, part(told, 3)?),
        "day" => How::Day,
        "list" => How::List(part(told, 1)?, Box::new(how_of(&part(told, 2)?)?)),
        "map" => How::Map(Box::new(how_of(&part(told, 1)?)?)),
        "record" => {
            let parts: Vec<Plan> = part(told, 1)?;
            let parts = parts.iter().map(part_of).collect::<PyResult<_>>()?;
            How::Record(parts, part(told, 2)?)
        }
        "union" => {
            let branches: Vec<Plan> = part(told, 1)?;
            How::Union(branches.iter().map(how_of).collect::<PyResult<_>>()?)
        }
        "never" => How::Never,
        _ => return unknown("way to read a value", &name),
    })
}

fn part_of(told: &Plan) -> PyResult<Part> {
    let name: String = part(told, 0)?;
    match name.as_str() {
        "skip" => Ok(Part::Skip(skip_of(&part(told, 1)?)?)),
        "field" => Ok(Part::Field {
            number: part(told, 1)?,
            how: how_of(&part(told, 2)?)?,
            required: part(told, 3)?,
        }),
        _ => unknown("part of a record", &name),
    }
}

fn step_of(told: &Plan, count: usize) -> PyResult<Step> {
    let name: String = part(told, 0)?;
    let steps = |place| -> PyResult<Vec<Step>> {
        let steps: Vec<Plan> = part(told, place)?;
        steps.iter().map(|step| step_of(step, count)).collect()
    };
    match name.as_str() {
        "skip" => Ok(Step::Skip(skip_of(&part(told, 1)?)?)),
        "column" => {
            let number: usize = part(told, 1)?;
            if number >= count {
                return unknown("column", &number.to_string());
            }
            Ok(Step::Column { number, how: how_of(&part(told, 2)?)? })
        }
        "inside" => {
            let columns: Vec<usize> = part(told, 3)?;
            if let Some(number) = columns.iter().find(|&&number| number >= count) {
                return unknown("column", &number.to_string());
            }
            Ok(Step::Inside { steps: steps(1)?, branch: part(told, 2)?, columns })
        }
        "absent" => {
            let number: usize = part(told, 1)?;
            if number < count { Ok(Step::Absent(number)) } else { unknown("column", "absent") }
        }
        "each" => Ok(Step::Each(steps(1)?)),
        _ => unknown("step", &name),
    }
}
