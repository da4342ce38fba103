//! One JSON value -> one value of a column, by the column's type.

use std::collections::HashSet;
use std::hash::Hash;

use crate::arrays::{ArrowArray, Booleans, Offsets, Present, Texts, Values};
use crate::number::{self, Float, Number};
use crate::objects::Fields;
use crate::scan::{Doubt, Reader, Vouched, unescape};
use crate::time::{self, MAX_TIME_US, MIN_TIME_US};

/// Up to so many keys of a map are compared with each other, above they are hashed.
const FEW_KEYS: usize = 16;

/// A column, or what lies inside one, with the values read so far.
pub enum Column {
    Boolean(Booleans),
    Int8(Values<i8>),
    Int16(Values<i16>),
    Int32(Values<i32>),
    Int64(Values<i64>),
    Float32(Values<f32>),
    Float64(Values<f64>),
    Decimal {
        values: Values<i128>,
        scale: i32,
        limit: i128,
    },
    Text(Texts),
    Date(Values<i32>),
    /// A timestamp as ISO 8601 text.
    Instant(Values<i64>),
    /// A timestamp as a number of units, a microsecond being `places` decimal places of one.
    Epoch {
        values: Values<i64>,
        places: i32,
    },
    List {
        offsets: Offsets,
        items: Box<Column>,
    },
    Map {
        offsets: Offsets,
        keys: Box<Column>,
        values: Box<Column>,
    },
    Struct {
        present: Present,
        fields: Fields,
    },
}

impl Column {
    /// Read the value that the reader stands on, `null` included.
    #[inline(always)]
    pub fn read(&mut self, reader: &mut Reader) -> Vouched<()> {
        if reader.peek() == b'n' {
            reader.word(b"null")?;
            self.push_null();
            return Ok(());
        }
        match self {
            Self::Int64(values) => integer(values, reader),
            Self::Text(texts) => text(texts, reader),
            _ => self.read_other(reader),
        }
    }

    fn read_other(&mut self, reader: &mut Reader) -> Vouched<()> {
        match self {
            Self::Boolean(values) => {
                let value = reader.peek() == b't';
                reader.word(if value { b"true" } else { b"false" })?;
                values.push(value);
                Ok(())
            }
            Self::Int8(values) => integer(values, reader),
            Self::Int16(values) => integer(values, reader),
            Self::Int32(values) => integer(values, reader),
            Self::Int64(values) => integer(values, reader),
            Self::Float32(values) => float(values, reader),
            Self::Float64(values) => float(values, reader),
            Self::Decimal { values, scale, limit } => {
                let value = with_number(reader, |found| found.scaled(*scale))?;
                if value <= -*limit || value >= *limit {
                    return Err(Doubt);
                }
                values.push(value);
                Ok(())
            }
            Self::Text(texts) => text(texts, reader),
            Self::Date(values) => {
                values.push(with_text(reader, time::date)?);
                Ok(())
            }
            Self::Instant(values) => {
                values.push(with_text(reader, time::instant)?);
                Ok(())
            }
            Self::Epoch { values, places } => {
                let time_us = with_number(reader, |found| found.scaled(*places))?;
                let time_us = i64::try_from(time_us).map_err(|_| Doubt)?;
                if !(MIN_TIME_US..=MAX_TIME_US).contains(&time_us) {
                    return Err(Doubt);
                }
                values.push(time_us);
                Ok(())
            }
            Self::List { offsets, items } => list(offsets, items, reader),
            Self::Map { offsets, keys, values } => map(offsets, keys, values, reader),
            Self::Struct { present, fields } => {
                fields.read(reader)?;
                present.push();
                Ok(())
            }
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Self::Boolean(values) => values.push_null(),
            Self::Int8(values) => values.push_null(),
            Self::Int16(values) => values.push_null(),
            Self::Int32(values) | Self::Date(values) => values.push_null(),
            Self::Int64(values) | Self::Instant(values) | Self::Epoch { values, .. } => {
                values.push_null();
            }
            Self::Float32(values) => values.push_null(),
            Self::Float64(values) => values.push_null(),
            Self::Decimal { values, .. } => values.push_null(),
            Self::Text(texts) => texts.offsets.push_null(),
            Self::List { offsets, .. } | Self::Map { offsets, .. } => offsets.push_null(),
            Self::Struct { present, fields } => {
                present.push_null();
                fields.push_nulls();
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::Int8(values) => values.len(),
            Self::Int16(values) => values.len(),
            Self::Int32(values) | Self::Date(values) => values.len(),
            Self::Int64(values) | Self::Instant(values) | Self::Epoch { values, .. } => {
                values.len()
            }
            Self::Float32(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Decimal { values, .. } => values.len(),
            Self::Text(texts) => texts.offsets.len(),
            Self::List { offsets, .. } | Self::Map { offsets, .. } => offsets.len(),
            Self::Struct { present, .. } => present.len(),
        }
    }

    /// Forget all values but the first `length`; of a row in doubt some columns have one more.
    pub fn truncate(&mut self, length: usize) {
        match self {
            Self::Boolean(values) => values.truncate(length),
            Self::Int8(values) => values.truncate(length),
            Self::Int16(values) => values.truncate(length),
            Self::Int32(values) | Self::Date(values) => values.truncate(length),
            Self::Int64(values) | Self::Instant(values) | Self::Epoch { values, .. } => {
                values.truncate(length);
            }
            Self::Float32(values) => values.truncate(length),
            Self::Float64(values) => values.truncate(length),
            Self::Decimal { values, .. } => values.truncate(length),
            Self::Text(texts) => texts.truncate(length),
            Self::List { offsets, items } => items.truncate(offsets.truncate(length)),
            Self::Map { offsets, keys, values } => {
                let end = offsets.truncate(length);
                keys.truncate(end);
                values.truncate(end);
            }
            Self::Struct { present, fields } => {
                present.truncate(length);
                fields.truncate(length);
            }
        }
    }

    /// Hand over the values and begin anew.
    pub fn take(&mut self) -> ArrowArray {
        match self {
            Self::Boolean(values) => values.take(),
            Self::Int8(values) => values.take(),
            Self::Int16(values) => values.take(),
            Self::Int32(values) | Self::Date(values) => values.take(),
            Self::Int64(values) | Self::Instant(values) | Self::Epoch { values, .. } => {
                values.take()
            }
            Self::Float32(values) => values.take(),
            Self::Float64(values) => values.take(),
            Self::Decimal { values, .. } => values.take(),
            Self::Text(texts) => texts.take(),
            Self::List { offsets, items } => {
                let items = items.take();
                offsets.take(None, vec![items])
            }
            Self::Map { offsets, keys, values } => {
                let length = keys.len();
                let entries = vec![keys.take(), values.take()];
                let entries = Present::of(length).take(entries);
                offsets.take(None, vec![entries])
            }
            Self::Struct { present, fields } => {
                let children = fields.take();
                present.take(children)
            }
        }
    }
}

#[inline(always)]
fn integer<T>(values: &mut Values<T>, reader: &mut Reader) -> Vouched<()>
where
    T: TryFrom<i128> + Copy + Default + Send + 'static,
{
    let value = with_number(reader, |found| found.scaled(0))?;
    values.push(T::try_from(value).map_err(|_| Doubt)?);
    Ok(())
}

#[inline(always)]
fn float<T: Float + Default + Send>(values: &mut Values<T>, reader: &mut Reader) -> Vouched<()> {
    values.push(with_number(reader, |found| found.float())?);
    Ok(())
}

/// A number, which may also come as text.
#[inline(always)]
fn with_number<T>(reader: &mut Reader, convert: impl FnOnce(Number) -> Vouched<T>) -> Vouched<T> {
    if reader.peek() == b'"' {
        return with_text(reader, |text| convert(number::read_text(text)?));
    }
    convert(number::read(reader)?)
}

#[inline(always)]
fn with_text<T>(reader: &mut Reader, convert: impl FnOnce(&[u8]) -> Vouched<T>) -> Vouched<T> {
    let found = reader.string()?;
    convert(reader.plain(found)?)
}

#[inline(always)]
fn text(texts: &mut Texts, reader: &mut Reader) -> Vouched<()> {
    let found = reader.string()?;
    if !found.escaped {
        texts.push(found.raw);
        return Ok(());
    }
    let (data, start) = texts.open();
    unescape(found.raw, data)?;
    if data[start..].contains(&0) {
        return Err(Doubt);
    }
    texts.finish();
    Ok(())
}

fn list(offsets: &mut Offsets, items: &mut Column, reader: &mut Reader) -> Vouched<()> {
    if reader.peek() != b'[' {
        return Err(Doubt);
    }
    reader.enter()?;
    if reader.peek() != b']' {
        loop {
            items.read(reader)?;
            if !reader.another(b']')? {
                break;
            }
        }
    }
    reader.leave();
    offsets.push(items.len());
    Ok(())
}

fn map(
    offsets: &mut Offsets,
    keys: &mut Column,
    values: &mut Column,
    reader: &mut Reader,
) -> Vouched<()> {
    if reader.peek() != b'{' {
        return Err(Doubt);
    }
    reader.enter()?;
    if reader.peek() != b'}' {
        loop {
            if reader.peek() != b'"' {
                return Err(Doubt);
            }
            keys.read(reader)?;
            reader.skip_space();
            reader.expect(b':')?;
            reader.skip_space();
            values.read(reader)?;
            if !reader.another(b'}')? {
                break;
            }
        }
    }
    reader.leave();
    if !unlike(keys, offsets.end()) {
        return Err(Doubt);
    }
    offsets.push(keys.len());
    Ok(())
}

/// True when no two of the keys from number `start` on are equal.
fn unlike(keys: &Column, start: usize) -> bool {
    match keys {
        Column::Text(texts) => all_different(&texts.since(start).collect::<Vec<_>>()),
        Column::Int8(values) => all_different(values.since(start)),
        Column::Int16(values) => all_different(values.since(start)),
        Column::Int32(values) => all_different(values.since(start)),
        Column::Int64(values) => all_different(values.since(start)),
        _ => false,
    }
}

fn all_different<T: Eq + Hash>(keys: &[T]) -> bool {
    if keys.len() <= FEW_KEYS {
        return keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key));
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter().all(|key| seen.insert(key))
}
