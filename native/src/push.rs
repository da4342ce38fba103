//! Values of binary formats -> values of a column, by the number and time rules of JSON.

use crate::columns::{Column, push_text};
use crate::scan::{Doubt, Vouched};

/// Whole numbers up to here are the same in a float of 32 bits.
const FLOAT_EXACT: u64 = 1 << 24;
/// A column of texts is full below what its offsets can count.
const MAX_TEXT_BYTES: usize = 1 << 30;

#[inline(always)]
pub fn push_number(column: &mut Column, value: i64) -> Vouched<()> {
    match column {
        Column::Int64(values) => values.push(value),
        Column::Int32(values) => values.push(i32::try_from(value).map_err(|_| Doubt)?),
        Column::Float64(values) if value.unsigned_abs() < FLOAT_EXACT => values.push(value as f64),
        Column::Float32(values) if value.unsigned_abs() < FLOAT_EXACT => values.push(value as f32),
        Column::Text(_) | Column::Bounded { .. } => {
            return push_text(column, value.to_string().as_bytes());
        }
        _ => return column.push_scaled(i128::from(value), 0),
    }
    Ok(())
}

pub fn push_float(column: &mut Column, value: f64) -> Vouched<()> {
    if !value.is_finite() {
        return Err(Doubt);
    }
    match column {
        Column::Float64(values) => values.push(value),
        Column::Float32(values) if f64::from(value as f32) == value => values.push(value as f32),
        Column::Float32(_) => return Err(Doubt),
        // Beyond, and with a fraction, the digits are for the slow path to count.
        _ if value.fract() == 0.0 && value.abs() < 9e18 => {
            return column.push_scaled(value as i128, 0);
        }
        _ => return Err(Doubt),
    }
    Ok(())
}

pub fn push_boolean(column: &mut Column, value: bool) -> Vouched<()> {
    match column {
        Column::Boolean(values) => {
            values.push(value);
            Ok(())
        }
        Column::Text(_) | Column::Bounded { .. } => {
            push_text(column, if value { b"true" } else { b"false" })
        }
        _ => Err(Doubt),
    }
}

pub fn push_bytes(column: &mut Column, value: &[u8]) -> Vouched<()> {
    match column {
        Column::Bytes(bytes) => {
            bytes.push(value);
            Ok(())
        }
        _ => Err(Doubt),
    }
}

/// Push a text that takes fewer bytes in the payload than in the column.
pub fn push_symbol(column: &mut Column, symbol: &[u8]) -> Vouched<()> {
    match column {
        Column::Text(texts) | Column::Bounded { texts, .. } if texts.bytes() > MAX_TEXT_BYTES => {
            Err(Doubt)
        }
        _ => push_text(column, symbol),
    }
}

/// Push a time, as microseconds since the epoch.
pub fn push_instant(column: &mut Column, time_us: i64) -> Vouched<()> {
    match column {
        Column::Instant(values) | Column::Epoch { values, .. } => {
            values.push(time_us);
            Ok(())
        }
        _ => Err(Doubt),
    }
}

/// Push a day, as days since 1970-01-01.
pub fn push_day(column: &mut Column, number: i64) -> Vouched<()> {
    match column {
        Column::Date(values) => {
            values.push(crate::time::day(number)?);
            Ok(())
        }
        _ => Err(Doubt),
    }
}
