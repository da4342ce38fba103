//! One JSON value -> one value of a column, by the column's type.

use std::collections::HashSet;
use std::hash::Hash;

use crate::arrays::{ArrowArray, Booleans, Offsets, Present, Texts, Values};
use crate::base64;
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
    /// Text of at most so many characters; `padded` ones are kept without the blanks at their end.
    Bounded {
        texts: Texts,
        most: usize,
        padded: bool,
    },
    Date(Values<i32>),
    /// A timestamp as ISO 8601 text.
    Instant(Values<i64>),
    /// A timestamp as a number of units, a microsecond being `places` decimal places of one.
    Epoch {
        values: Values<i64>,
        places: i32,
    },
    /// Bytes; in JSON as base64.
    Bytes(Texts),
    /// A number whose digits Kafka Connect writes as bytes in base64, its scale being in the
    /// schema, or with None beside the digits.
    Connect {
        inner: Box<Column>,
        scale: Option<i32>,
    },
    /// A timestamp as a whole number of units without quotes.
    Moment {
        values: Values<i64>,
        unit: Unit,
    },
    /// A date as a whole number of days without quotes.
    Day(Values<i32>),
    /// Every value but null is in doubt.
    Never(Box<Column>),
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
            Self::Bounded { texts, most, padded } => {
                let found = reader.string()?;
                push_bounded(texts, reader.plain(found)?, *most, *padded)
            }
            Self::Bytes(bytes) => {
                let found = reader.string()?;
                let text = reader.plain(found)?;
                let (data, _) = bytes.open();
                base64::decode(text, data)?;
                bytes.finish();
                Ok(())
            }
            Self::Connect { inner, scale } => connect_number(inner, *scale, reader),
            Self::Moment { values, unit } => {
                values.push(unit.instant(whole(reader)?)?);
                Ok(())
            }
            Self::Day(values) => {
                values.push(time::day(whole(reader)?)?);
                Ok(())
            }
            Self::Never(_) => Err(Doubt),
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

    /// A number of `unscaled` times ten to the minus `scale`.
    pub fn push_scaled(&mut self, unscaled: i128, scale: i32) -> Vouched<()> {
        match self {
            Self::Int8(values) => push_whole(values, number::rescaled(unscaled, scale, 0)?),
            Self::Int16(values) => push_whole(values, number::rescaled(unscaled, scale, 0)?),
            Self::Int32(values) => push_whole(values, number::rescaled(unscaled, scale, 0)?),
            Self::Int64(values) => push_whole(values, number::rescaled(unscaled, scale, 0)?),
            Self::Decimal { values, scale: own, limit } => {
                let value = number::rescaled(unscaled, scale, *own)?;
                if value <= -*limit || value >= *limit {
                    return Err(Doubt);
                }
                values.push(value);
                Ok(())
            }
            Self::Float32(values) => {
                let text = format!("{unscaled}e{}", -scale);
                values.push(number::read_text(text.as_bytes())?.float()?);
                Ok(())
            }
            Self::Float64(values) => {
                let text = format!("{unscaled}e{}", -scale);
                values.push(number::read_text(text.as_bytes())?.float()?);
                Ok(())
            }
            _ => Err(Doubt),
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Self::Boolean(values) => values.push_null(),
            Self::Int8(values) => values.push_null(),
            Self::Int16(values) => values.push_null(),
            Self::Int32(values) | Self::Date(values) | Self::Day(values) => values.push_null(),
            Self::Int64(values)
            | Self::Instant(values)
            | Self::Epoch { values, .. }
            | Self::Moment { values, .. } => values.push_null(),
            Self::Connect { inner, .. } | Self::Never(inner) => inner.push_null(),
            Self::Float32(values) => values.push_null(),
            Self::Float64(values) => values.push_null(),
            Self::Decimal { values, .. } => values.push_null(),
            Self::Text(texts) | Self::Bounded { texts, .. } | Self::Bytes(texts) => {
                texts.offsets.push_null();
            }
            Self::List { offsets, .. } | Self::Map { offsets, .. } => offsets.push_null(),
            Self::Struct { present, fields } => {
                present.push_null();
                fields.push_nulls();
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::Int8(values) => values.len(),
            Self::Int16(values) => values.len(),
            Self::Int32(values) | Self::Date(values) | Self::Day(values) => values.len(),
            Self::Int64(values)
            | Self::Instant(values)
            | Self::Epoch { values, .. }
            | Self::Moment { values, .. } => values.len(),
            Self::Connect { inner, .. } | Self::Never(inner) => inner.len(),
            Self::Float32(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Decimal { values, .. } => values.len(),
            Self::Text(texts) | Self::Bounded { texts, .. } | Self::Bytes(texts) => {
                texts.offsets.len()
            }
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
            Self::Int32(values) | Self::Date(values) | Self::Day(values) => values.truncate(length),
            Self::Int64(values)
            | Self::Instant(values)
            | Self::Epoch { values, .. }
            | Self::Moment { values, .. } => values.truncate(length),
            Self::Connect { inner, .. } | Self::Never(inner) => inner.truncate(length),
            Self::Float32(values) => values.truncate(length),
            Self::Float64(values) => values.truncate(length),
            Self::Decimal { values, .. } => values.truncate(length),
            Self::Text(texts) | Self::Bounded { texts, .. } | Self::Bytes(texts) => {
                texts.truncate(length);
            }
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
            Self::Int32(values) | Self::Date(values) | Self::Day(values) => values.take(),
            Self::Int64(values)
            | Self::Instant(values)
            | Self::Epoch { values, .. }
            | Self::Moment { values, .. } => values.take(),
            Self::Connect { inner, .. } | Self::Never(inner) => inner.take(),
            Self::Float32(values) => values.take(),
            Self::Float64(values) => values.take(),
            Self::Decimal { values, .. } => values.take(),
            Self::Text(texts) | Self::Bounded { texts, .. } | Self::Bytes(texts) => texts.take(),
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

/// Of a number that counts times: what `times` of them divided by `per` are in microseconds.
#[derive(Clone, Copy)]
pub struct Unit {
    pub times: i64,
    pub per: i64,
}

impl Unit {
    /// Microseconds since the epoch, within the calendar and none of them a fraction.
    #[inline(always)]
    pub fn instant(self, number: i64) -> Vouched<i64> {
        let count = number.checked_mul(self.times).ok_or(Doubt)?;
        if self.per != 1 && count % self.per != 0 {
            return Err(Doubt);
        }
        let time_us = count / self.per;
        if (MIN_TIME_US..=MAX_TIME_US).contains(&time_us) { Ok(time_us) } else { Err(Doubt) }
    }
}

fn push_whole<T>(values: &mut Values<T>, value: i128) -> Vouched<()>
where
    T: TryFrom<i128> + Copy + Default + Send + 'static,
{
    values.push(T::try_from(value).map_err(|_| Doubt)?);
    Ok(())
}

/// Push a text that is not from JSON: as it is, or as the number or time that it says.
#[inline(always)]
pub fn push_text(column: &mut Column, text: &[u8]) -> Vouched<()> {
    match column {
        Column::Text(texts) => {
            if text.contains(&0) || std::str::from_utf8(text).is_err() {
                return Err(Doubt);
            }
            texts.push(text);
            Ok(())
        }
        _ => push_other_text(column, text),
    }
}

fn push_other_text(column: &mut Column, text: &[u8]) -> Vouched<()> {
    std::str::from_utf8(text).map_err(|_| Doubt)?;
    match column {
        Column::Bounded { texts, most, padded } => push_bounded(texts, text, *most, *padded),
        Column::Boolean(values) => {
            values.push(match text {
                b"true" => true,
                b"false" => false,
                _ => return Err(Doubt),
            });
            Ok(())
        }
        Column::Int8(values) => push_whole(values, number::read_text(text)?.scaled(0)?),
        Column::Int16(values) => push_whole(values, number::read_text(text)?.scaled(0)?),
        Column::Int32(values) => push_whole(values, number::read_text(text)?.scaled(0)?),
        Column::Int64(values) => push_whole(values, number::read_text(text)?.scaled(0)?),
        Column::Float32(values) => {
            values.push(number::read_text(text)?.float()?);
            Ok(())
        }
        Column::Float64(values) => {
            values.push(number::read_text(text)?.float()?);
            Ok(())
        }
        Column::Decimal { scale, .. } => {
            let scale = *scale;
            column.push_scaled(number::read_text(text)?.scaled(scale)?, scale)
        }
        Column::Date(values) => {
            values.push(time::date(text)?);
            Ok(())
        }
        Column::Instant(values) => {
            values.push(time::instant(text)?);
            Ok(())
        }
        Column::Epoch { values, places } => {
            let time_us = number::read_text(text)?.scaled(*places)?;
            let unit = Unit { times: 1, per: 1 };
            values.push(unit.instant(i64::try_from(time_us).map_err(|_| Doubt)?)?);
            Ok(())
        }
        _ => Err(Doubt),
    }
}

/// Push text, as long as it is no longer than its column.
pub fn push_bounded(texts: &mut Texts, text: &[u8], most: usize, padded: bool) -> Vouched<()> {
    let kept = if padded { without_blanks(text) } else { text };
    let whole = kept.len() == text.len();
    // Blanks at the end come back only up to the full length.
    if characters(kept) > most || (!whole && characters(text) != most) || text.contains(&0) {
        return Err(Doubt);
    }
    texts.push(kept);
    Ok(())
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|&&byte| byte == b' ').count();
    &text[..text.len() - blanks]
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// A number that Kafka Connect wrote: digits as bytes, or any number of JSON.
fn connect_number(inner: &mut Column, scale: Option<i32>, reader: &mut Reader) -> Vouched<()> {
    match (reader.peek(), scale) {
        (b'"', Some(scale)) => {
            let digits = with_text(reader, base64::number)?;
            inner.push_scaled(digits, scale)
        }
        (b'{', None) => {
            let (digits, scale) = variable_number(reader)?;
            inner.push_scaled(digits, scale)
        }
        (b'-' | b'0'..=b'9', _) => inner.read(reader),
        _ => Err(Doubt),
    }
}

/// `{"scale": 2, "value": "AQ=="}`, as Debezium writes it.
fn variable_number(reader: &mut Reader) -> Vouched<(i128, i32)> {
    reader.enter()?;
    named(reader, b"\"scale\"")?;
    let scale = i32::try_from(whole(reader)?).map_err(|_| Doubt)?;
    if !(-1000..=1000).contains(&scale) || !reader.another(b'}')? {
        return Err(Doubt);
    }
    named(reader, b"\"value\"")?;
    let digits = with_text(reader, base64::number)?;
    if reader.another(b'}')? {
        return Err(Doubt);
    }
    reader.leave();
    Ok((digits, scale))
}

fn named(reader: &mut Reader, name: &[u8]) -> Vouched<()> {
    reader.word(name)?;
    reader.skip_space();
    reader.expect(b':')?;
    reader.skip_space();
    Ok(())
}

/// A whole number of at most 19 digits, with no point and no exponent.
#[inline(always)]
fn whole(reader: &mut Reader) -> Vouched<i64> {
    let begin = reader.mark();
    let found = number::read(reader)?;
    let text = reader.since(begin);
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Doubt);
    }
    i64::try_from(found.scaled(0)?).map_err(|_| Doubt)
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
    match reader.peek() {
        b'{' => {}
        b'[' => return entries(offsets, keys, values, reader),
        _ => return Err(Doubt),
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
    finish_map(offsets, keys)
}

/// A map as Kafka Connect writes one whose keys are no texts: `[[1, "a"], [2, "b"]]`.
fn entries(
    offsets: &mut Offsets,
    keys: &mut Column,
    values: &mut Column,
    reader: &mut Reader,
) -> Vouched<()> {
    reader.enter()?;
    if reader.peek() != b']' {
        loop {
            if reader.peek() != b'[' {
                return Err(Doubt);
            }
            reader.enter()?;
            if reader.peek() == b'n' {
                return Err(Doubt);
            }
            keys.read(reader)?;
            if !reader.another(b']')? {
                return Err(Doubt);
            }
            values.read(reader)?;
            if reader.another(b']')? {
                return Err(Doubt);
            }
            reader.leave();
            if !reader.another(b']')? {
                break;
            }
        }
    }
    reader.leave();
    finish_map(offsets, keys)
}

/// The map whose keys were read; a key that came twice is a doubt.
pub fn finish_map(offsets: &mut Offsets, keys: &Column) -> Vouched<()> {
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
