//! ISO 8601 text -> days and microseconds, as `types/iso_time.py` has it.
//!
//! The calendar is the proleptic Gregorian one, from 0001-01-01 to 9999-12-31.

use crate::scan::{Doubt, Vouched};

const DAY_US: i64 = 86_400_000_000;
const MINUTE_US: i64 = 60_000_000;
pub const MIN_TIME_US: i64 = -719_162 * DAY_US;
pub const MAX_TIME_US: i64 = 2_932_897 * DAY_US - 1;
const MIN_DAY: i64 = MIN_TIME_US / DAY_US;
const MAX_DAY: i64 = MAX_TIME_US / DAY_US;
const MICROSECOND_DIGITS: usize = 6;
const MAX_FRACTION_DIGITS: usize = 18;
const MONTH_DAYS: [i32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Days since 1970-01-01, of the years 0001 to 9999.
#[inline(always)]
pub fn day(number: i64) -> Vouched<i32> {
    if (MIN_DAY..=MAX_DAY).contains(&number) { Ok(number as i32) } else { Err(Doubt) }
}

/// Read `yyyy-MM-dd` as days since 1970-01-01.
pub fn date(text: &[u8]) -> Vouched<i32> {
    if text.len() != 10 || text[4] != b'-' || text[7] != b'-' {
        return Err(Doubt);
    }
    days_of(two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?)
}

/// Days since 1970-01-01, of a day of the years 0001 to 9999.
pub fn days_of(year: i32, month: i32, day: i32) -> Vouched<i32> {
    let known = (1..=9999).contains(&year) && (1..=12).contains(&month);
    if !known || day < 1 || day > days_in(year, month) {
        return Err(Doubt);
    }
    Ok(days_since_epoch(year, month, day))
}

/// Read `yyyy-MM-ddTHH:mm[:ss[.f]]` with `Z` or an offset as microseconds since the epoch, UTC.
pub fn instant(text: &[u8]) -> Vouched<i64> {
    if text.len() < 17 || !matches!(text[10], b'T' | b' ') || text[13] != b':' {
        return Err(Doubt);
    }
    let days = date(&text[..10])?;
    let (hour, minute) = (below(two(text, 11)?, 24)?, below(two(text, 14)?, 60)?);
    let mut micros = (hour * 60 + minute) * MINUTE_US;
    let mut rest = &text[16..];
    if rest[0] == b':' {
        micros += below(two(rest, 1)?, 60)? * 1_000_000;
        rest = &rest[3..];
        if rest.first() == Some(&b'.') {
            let fraction = &rest[1..];
            let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            micros += fraction_us(&fraction[..length])?;
            rest = &fraction[length..];
        }
    }
    let time_us = i64::from(days) * DAY_US + micros - offset_us(rest)?;
    if (MIN_TIME_US..=MAX_TIME_US).contains(&time_us) { Ok(time_us) } else { Err(Doubt) }
}

fn fraction_us(digits: &[u8]) -> Vouched<i64> {
    let finer = digits.iter().skip(MICROSECOND_DIGITS).any(|&digit| digit != b'0');
    if digits.is_empty() || digits.len() > MAX_FRACTION_DIGITS || finer {
        return Err(Doubt);
    }
    let places = (0..MICROSECOND_DIGITS).map(|place| digits.get(place).copied().unwrap_or(b'0'));
    Ok(places.fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0')))
}

/// `Z`, `+hh`, `+hhmm` or `+hh:mm`, or the same with a minus.
fn offset_us(text: &[u8]) -> Vouched<i64> {
    let (sign, rest) = match text.split_first() {
        Some((b'Z', [])) => return Ok(0),
        Some((b'+', rest)) => (MINUTE_US, rest),
        Some((b'-', rest)) => (-MINUTE_US, rest),
        _ => return Err(Doubt),
    };
    let minutes_at = match rest.len() {
        2 => None,
        4 => Some(2),
        5 if rest[2] == b':' => Some(3),
        _ => return Err(Doubt),
    };
    let minutes = minutes_at.map_or(Ok(0), |place| two(rest, place))?;
    Ok((below(two(rest, 0)?, 24)? * 60 + below(minutes, 60)?) * sign)
}

/// The number that two digits are.
fn two(text: &[u8], place: usize) -> Vouched<i32> {
    match text.get(place..place + 2) {
        Some(&[tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => {
            Ok(i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
        }
        _ => Err(Doubt),
    }
}

fn below(value: i32, bound: i32) -> Vouched<i64> {
    if value < bound { Ok(i64::from(value)) } else { Err(Doubt) }
}

fn days_in(year: i32, month: i32) -> i32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    MONTH_DAYS[month as usize - 1] + i32::from(leap && month == 2)
}

/// Days from 1970-01-01; years are counted from March, so that the leap day comes last.
fn days_since_epoch(year: i32, month: i32, day: i32) -> i32 {
    let years = if month > 2 { year } else { year - 1 };
    let months = (month + 9) % 12;
    let day_of_year = (153 * months + 2) / 5 + day - 1;
    years * 365 + years / 4 - years / 100 + years / 400 + day_of_year - 719_468
}
