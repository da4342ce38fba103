//! Number texts -> exact values. Nothing passes through a double on its way to an exact type.

use std::str::FromStr;

use crate::scan::{Doubt, Reader, Vouched};

/// Digits that always fit into 64 bits.
const DIGITS_64: u32 = 19;
/// Digits of the widest decimal.
const DIGITS_128: u32 = 38;
/// Exponents beyond this are nobody's number; the slow path looks at them.
const MAX_EXPONENT: i32 = 9_999;

/// A decimal number in the payload: `mantissa` times ten to the `exponent`.
#[derive(Clone, Copy)]
pub struct Number<'a> {
    text: &'a [u8],
    negative: bool,
    /// Only when there are at most `DIGITS_64`.
    mantissa: u64,
    /// Counted from the first one that is not zero.
    digits: u32,
    exponent: i32,
}

/// Read a JSON number, the reader standing on it.
#[inline(always)]
pub fn read<'a>(reader: &mut Reader<'a>) -> Vouched<Number<'a>> {
    let begin = reader.mark();
    let negative = reader.peek() == b'-';
    if negative {
        reader.skip(1);
    }
    let zero = reader.peek() == b'0';
    let mut digits = Digits::default();
    let whole = digits.read(reader);
    if whole == 0 || (zero && whole > 1) {
        return Err(Doubt);
    }
    let mut exponent = 0;
    if reader.peek() == b'.' {
        reader.skip(1);
        let places = digits.read(reader);
        if places == 0 {
            return Err(Doubt);
        }
        exponent = -(places as i32);
    }
    if reader.peek() | 0x20 == b'e' {
        exponent += read_exponent(reader)?;
    }
    let Digits { mantissa, count } = digits;
    Ok(Number { text: reader.since(begin), negative, mantissa, digits: count, exponent })
}

/// Step over a JSON number of any size.
pub fn skip(reader: &mut Reader) -> Vouched<()> {
    if reader.peek() == b'-' {
        reader.skip(1);
    }
    let zero = reader.peek() == b'0';
    let whole = skip_digits(reader);
    if whole == 0 || (zero && whole > 1) {
        return Err(Doubt);
    }
    if reader.peek() == b'.' {
        reader.skip(1);
        if skip_digits(reader) == 0 {
            return Err(Doubt);
        }
    }
    if reader.peek() | 0x20 == b'e' {
        reader.skip(1);
        if matches!(reader.peek(), b'+' | b'-') {
            reader.skip(1);
        }
        if skip_digits(reader) == 0 {
            return Err(Doubt);
        }
    }
    Ok(())
}

/// Read a number that came as text: a plus, leading zeros and a bare point are fine there.
pub fn read_text(text: &[u8]) -> Vouched<Number<'_>> {
    let mut rest = text;
    let negative = rest.first() == Some(&b'-');
    if matches!(rest.first(), Some(b'-' | b'+')) {
        rest = &rest[1..];
    }
    let mut digits = Digits::default();
    let (mut seen, mut places) = (0_i32, 0_i32);
    let mut point = false;
    while let Some(&byte) = rest.first() {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte);
                seen = seen.checked_add(1).ok_or(Doubt)?;
                places += i32::from(point);
            }
            b'.' if !point => point = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    if seen == 0 {
        return Err(Doubt);
    }
    let mut exponent = -places;
    if let Some((b'e' | b'E', power)) = rest.split_first() {
        exponent += text_exponent(power)?;
    } else if !rest.is_empty() {
        return Err(Doubt);
    }
    let Digits { mantissa, count } = digits;
    Ok(Number { text, negative, mantissa, digits: count, exponent })
}

/// A number of `from` decimal places as one of `to`; a doubt when places would be lost.
pub fn rescaled(unscaled: i128, from: i32, to: i32) -> Vouched<i128> {
    let shift = to - from;
    if shift == 0 || unscaled == 0 {
        return Ok(unscaled);
    }
    let power = 10_i128.checked_pow(shift.unsigned_abs()).ok_or(Doubt)?;
    if shift > 0 {
        return unscaled.checked_mul(power).ok_or(Doubt);
    }
    if unscaled % power == 0 { Ok(unscaled / power) } else { Err(Doubt) }
}

impl Number<'_> {
    /// The number with exactly `scale` decimal places, as a whole number of them.
    ///
    /// A doubt when places would be lost or more than 38 digits are needed.
    #[inline(always)]
    pub fn scaled(&self, scale: i32) -> Vouched<i128> {
        let shift = self.exponent + scale;
        let size = if shift == 0 && self.digits <= DIGITS_64 {
            u128::from(self.mantissa)
        } else {
            self.shifted(shift)?
        };
        let size = i128::try_from(size).map_err(|_| Doubt)?;
        Ok(if self.negative { -size } else { size })
    }

    #[inline(never)]
    fn shifted(&self, shift: i32) -> Vouched<u128> {
        let size = self.wide()?;
        if size == 0 {
            return Ok(0);
        }
        let power = 10_u128.checked_pow(shift.unsigned_abs()).ok_or(Doubt)?;
        if shift >= 0 {
            return size.checked_mul(power).ok_or(Doubt);
        }
        if size % power == 0 { Ok(size / power) } else { Err(Doubt) }
    }

    /// The mantissa, of up to 38 digits.
    fn wide(&self) -> Vouched<u128> {
        if self.digits <= DIGITS_64 {
            return Ok(u128::from(self.mantissa));
        }
        if self.digits > DIGITS_128 {
            return Err(Doubt);
        }
        let mantissa = self.text.iter().take_while(|&&byte| byte | 0x20 != b'e');
        let digits = mantissa.filter(|byte| byte.is_ascii_digit());
        Ok(digits.fold(0, |size, &byte| size * 10 + u128::from(byte - b'0')))
    }

    /// The nearest double; see `Float::exact_limit` for what is no doubt.
    #[inline(always)]
    pub fn float<F: Float>(&self) -> Vouched<F> {
        let power = self.exponent.unsigned_abs() as usize;
        if self.digits <= DIGITS_64 && self.mantissa < F::WHOLE && power < F::POWERS.len() {
            // Both are exact, so that one operation rounds once.
            let size = F::of(self.mantissa);
            let found =
                if self.exponent < 0 { size / F::POWERS[power] } else { size * F::POWERS[power] };
            let small = found < F::of(F::WHOLE);
            if small || self.significant() <= F::DIGITS {
                return Ok(if self.negative { -found } else { found });
            }
            return Err(Doubt);
        }
        self.slow_float()
    }

    #[inline(never)]
    fn slow_float<F: Float>(&self) -> Vouched<F> {
        let text = std::str::from_utf8(self.text).map_err(|_| Doubt)?;
        let found = F::from_str(text).map_err(|_| Doubt)?;
        let size = if self.negative { -found } else { found };
        let vanished = size == F::of(0) && self.digits > 0;
        let changed = size >= F::of(F::WHOLE) && self.significant() > F::DIGITS;
        if vanished || changed || !size.finite() { Err(Doubt) } else { Ok(found) }
    }

    /// Digits up to the last one that is not zero; with more than 19 just many.
    fn significant(&self) -> u32 {
        if self.digits > DIGITS_64 {
            return u32::MAX;
        }
        let (mut mantissa, mut digits) = (self.mantissa, self.digits);
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            digits -= 1;
        }
        digits
    }
}

/// A binary floating point type.
pub trait Float:
    Copy
    + FromStr
    + PartialOrd
    + std::ops::Neg<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + 'static
{
    /// Whole numbers below this are all exact. From here on the type's neighbours are further
    /// apart than 1, so a number must print as it came to be vouched for.
    const WHOLE: u64;
    /// Decimal numbers of so many digits are told apart, and print as they came.
    const DIGITS: u32;
    /// Powers of ten that are exact.
    const POWERS: &'static [Self];

    fn of(size: u64) -> Self;
    fn finite(self) -> bool;
}

impl Float for f64 {
    const WHOLE: u64 = 1 << 53;
    const DIGITS: u32 = 15;
    const POWERS: &'static [f64] = &[
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];

    #[inline(always)]
    fn of(size: u64) -> f64 {
        size as f64
    }

    fn finite(self) -> bool {
        self.is_finite()
    }
}

impl Float for f32 {
    const WHOLE: u64 = 1 << 24;
    const DIGITS: u32 = 6;
    const POWERS: &'static [f32] = &[1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

    #[inline(always)]
    fn of(size: u64) -> f32 {
        size as f32
    }

    fn finite(self) -> bool {
        self.is_finite()
    }
}

#[derive(Default)]
struct Digits {
    mantissa: u64,
    count: u32,
}

impl Digits {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.mantissa = self.mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        self.count += u32::from(self.count > 0 || byte != b'0');
    }

    /// Take the digits that come next; how many there were.
    #[inline(always)]
    fn read(&mut self, reader: &mut Reader) -> usize {
        let begin = reader.mark();
        while self.count == 0 && reader.peek() == b'0' {
            reader.skip(1);
        }
        while all_digits(reader.eight()) {
            self.mantissa =
                self.mantissa.wrapping_mul(100_000_000).wrapping_add(value_of(reader.eight()));
            self.count += 8;
            reader.skip(8);
        }
        while reader.peek().is_ascii_digit() {
            self.push(reader.peek());
            reader.skip(1);
        }
        reader.since(begin).len()
    }
}

fn skip_digits(reader: &mut Reader) -> usize {
    let begin = reader.mark();
    while reader.peek().is_ascii_digit() {
        reader.skip(1);
    }
    reader.since(begin).len()
}

fn read_exponent(reader: &mut Reader) -> Vouched<i32> {
    reader.skip(1);
    let begin = reader.mark();
    if matches!(reader.peek(), b'+' | b'-') {
        reader.skip(1);
    }
    skip_digits(reader);
    text_exponent(reader.since(begin))
}

fn text_exponent(text: &[u8]) -> Vouched<i32> {
    let negative = text.first() == Some(&b'-');
    let digits = if matches!(text.first(), Some(b'-' | b'+')) { &text[1..] } else { text };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Doubt);
    }
    let size = digits.iter().try_fold(0_i32, |size, &digit| {
        let size = size * 10 + i32::from(digit - b'0');
        if size <= MAX_EXPONENT { Ok(size) } else { Err(Doubt) }
    })?;
    Ok(if negative { -size } else { size })
}

/// True when all eight bytes are digits.
#[inline(always)]
fn all_digits(eight: u64) -> bool {
    let high = eight & 0xf0f0_f0f0_f0f0_f0f0;
    let carried = eight.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0;
    (high | (carried >> 4)) == 0x3333_3333_3333_3333
}

/// The number that eight digits are, the first one in the lowest byte.
#[inline(always)]
fn value_of(eight: u64) -> u64 {
    let pairs = (eight & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}
