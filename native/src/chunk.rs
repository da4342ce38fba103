//! The values of one column as Parquet stores them: plain, or as numbers of a dictionary; bounds.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use pyo3::IntoPyObject;

use crate::given::{Given, Kind};
use crate::thrift::varint;

/// Longer bounds are left out, as other writers do.
const MOST_BOUND_BYTES: usize = 4096;
/// What a dictionary costs besides its values: the head of its page.
const DICTIONARY_COST: usize = 32;
const JULIAN_EPOCH_DAY: i64 = 2_440_588;
const DAY_SECONDS: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

/// Values of a column, encoded.
pub struct Chunk {
    /// Distinct values and their number, where a dictionary pays.
    pub dictionary: Option<(Vec<u8>, usize)>,
    /// Plain values; with a dictionary, the numbers of its values.
    pub values: Vec<u8>,
    /// Least and greatest value, as statistics hold them.
    pub bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// The same as numbers; of instants in their own unit, which Parquet need not order.
    pub numbers: Option<(Number, Number)>,
}

/// A value as Python has it.
#[derive(Clone, Copy, IntoPyObject)]
pub enum Number {
    Whole(i128),
    Float(f64),
}

impl Chunk {
    /// Encode the values at some places of an array. None: Parquet stores it as another type.
    pub fn encode(given: &Given, present: &[u32], physical: i64, width: usize) -> Option<Self> {
        let places = present.iter().map(|&at| at as usize);
        let is_text = matches!(given.kind, Kind::Bytes | Kind::LongBytes);
        Some(match (physical, given.kind) {
            (6, _) if is_text || given.dictionary.is_some() => {
                of_values(&places.map(|at| given.bytes(at)).collect::<Vec<_>>())
            }
            _ if given.dictionary.is_some() => return None,
            (0, Kind::Boolean) => of_booleans(places.map(|at| given.boolean(at))),
            (1, Kind::Int8 | Kind::Int16 | Kind::Int32) => {
                of_values(&places.map(|at| given.integer(at) as i32).collect::<Vec<_>>())
            }
            (2, Kind::Int64) => of_values(&places.map(|at| given.integer(at)).collect::<Vec<_>>()),
            (2 | 3, Kind::Instant(units)) => {
                let moments: Vec<i64> = places.map(|at| given.integer(at)).collect();
                of_instants(&moments, units, physical)?
            }
            (4, Kind::Float32) => {
                of_values(&places.map(|at| f32::from_le_bytes(given.raw(at))).collect::<Vec<_>>())
            }
            (5, Kind::Float64) => {
                of_values(&places.map(|at| f64::from_le_bytes(given.raw(at))).collect::<Vec<_>>())
            }
            (1 | 2 | 7, Kind::Decimal) => {
                let digits = places.map(|at| i128::from_le_bytes(given.raw(at)));
                match physical {
                    1 => of_values(&digits.map(|value| value as i32).collect::<Vec<_>>()),
                    2 => of_values(&digits.map(|value| value as i64).collect::<Vec<_>>()),
                    _ if width == 0 || width > 16 => return None,
                    _ => {
                        of_values(&digits.map(|value| Digits { value, width }).collect::<Vec<_>>())
                    }
                }
            }
            _ => return None,
        })
    }
}

fn of_instants(moments: &[i64], units: i64, physical: i64) -> Option<Chunk> {
    let chunk = if physical == 3 {
        of_values(&moments.iter().map(|&moment| Int96::of(moment, units)).collect::<Vec<_>>())
    } else {
        // There are no seconds in Parquet.
        let factor = if units == 1 { 1_000 } else { 1 };
        let values = moments.iter().map(|moment| moment.checked_mul(factor));
        of_values(&values.collect::<Option<Vec<i64>>>()?)
    };
    let whole = |moment: i64| Number::Whole(moment.into());
    let numbers = i64::bounds(moments).map(|(least, most)| (whole(least), whole(most)));
    Some(Chunk { numbers, ..chunk })
}

/// A value that Parquet stores; equal keys are one value.
trait Value: Copy {
    type Key: Hash + Eq;
    fn key(self) -> Self::Key;
    fn size(self) -> usize;
    fn put(self, to: &mut Vec<u8>);
    /// The least and the greatest of some values, as they are ordered; none where they are not.
    fn bounds(values: &[Self]) -> Option<(Self, Self)>;
    /// A bound as a number; None of texts and bytes.
    fn number(self) -> Option<Number>;
    /// A bound as statistics hold it.
    fn bound(self) -> Vec<u8> {
        let mut found = vec![];
        self.put(&mut found);
        found
    }
}

fn of_values<T: Value>(values: &[T]) -> Chunk {
    let found = T::bounds(values);
    let numbers = found.and_then(|(least, most)| Some((least.number()?, most.number()?)));
    let bounds = found.map(|(least, most)| (least.bound(), most.bound()));
    let bounds = bounds.filter(|(least, most)| least.len().max(most.len()) <= MOST_BOUND_BYTES);
    let plain_size: usize = values.iter().map(|value| value.size()).sum();
    if let Some((dictionary, count, codes)) = with_dictionary(values) {
        let codes = coded(&codes, count);
        if dictionary.len() + codes.len() + DICTIONARY_COST < plain_size {
            return Chunk { dictionary: Some((dictionary, count)), values: codes, bounds, numbers };
        }
    }
    let mut plain = Vec::with_capacity(plain_size);
    values.iter().for_each(|value| value.put(&mut plain));
    Chunk { dictionary: None, values: plain, bounds, numbers }
}

/// Distinct values, their count and the number of each value; None above half of distinct ones.
fn with_dictionary<T: Value>(values: &[T]) -> Option<(Vec<u8>, usize, Vec<u32>)> {
    let mut seen: HashMap<T::Key, u32, BuildHasherDefault<Quick>> =
        HashMap::with_capacity_and_hasher(values.len() / 2 + 1, BuildHasherDefault::default());
    let mut dictionary = vec![];
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        let next = seen.len() as u32;
        let code = *seen.entry(value.key()).or_insert(next);
        if code == next {
            if seen.len() * 2 > values.len() {
                return None;
            }
            value.put(&mut dictionary);
        }
        codes.push(code);
    }
    Some((dictionary, seen.len(), codes))
}

fn coded(codes: &[u32], count: usize) -> Vec<u8> {
    let width = usize::BITS - count.saturating_sub(1).leading_zeros();
    let mut found = vec![width as u8];
    pack(codes, width, &mut found);
    found
}

/// Numbers of so many bits in Parquet's hybrid of runs and packed bits.
pub fn pack<T: Copy + Eq + Into<u32>>(values: &[T], width: u32, to: &mut Vec<u8>) {
    let mut at = 0;
    let mut packed = 0;
    while at < values.len() {
        let run = values[at..].iter().take_while(|&&value| value == values[at]).count();
        // A run may only follow whole groups of eight.
        if run >= 8 && (at - packed).is_multiple_of(8) {
            pack_groups(&values[packed..at], width, to);
            varint((run as u64) << 1, to);
            let value: u32 = values[at].into();
            to.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            at += run;
            packed = at;
        } else {
            // To the end of this group of eight, or of the run that is too short.
            let rest = 8 - (at - packed) % 8;
            at += rest.min(run);
        }
    }
    pack_groups(&values[packed..], width, to);
}

fn pack_groups<T: Copy + Into<u32>>(values: &[T], width: u32, to: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, to);
    let (mut bits, mut count, end) = (0u64, 0, to.len() + groups * width as usize);
    for &value in values {
        bits |= u64::from(value.into()) << count;
        count += width;
        while count >= 8 {
            to.push(bits as u8);
            bits >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        to.push(bits as u8);
    }
    to.resize(end, 0);
}

fn of_booleans(values: impl Iterator<Item = bool>) -> Chunk {
    let mut plain = vec![];
    let (mut any, mut all, mut count) = (false, true, 0);
    for value in values {
        if count % 8 == 0 {
            plain.push(0);
        }
        plain[count / 8] |= u8::from(value) << (count % 8);
        (any, all, count) = (any | value, all & value, count + 1);
    }
    let bounds = (count > 0).then(|| (vec![u8::from(all)], vec![u8::from(any)]));
    Chunk { dictionary: None, values: plain, bounds, numbers: None }
}

macro_rules! whole_numbers {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            type Key = $kind;
            fn key(self) -> $kind {
                self
            }
            fn size(self) -> usize {
                size_of::<$kind>()
            }
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn number(self) -> Option<Number> {
                Some(Number::Whole(self.into()))
            }
            fn bounds(values: &[Self]) -> Option<(Self, Self)> {
                Some((*values.iter().min()?, *values.iter().max()?))
            }
        }
    )*};
}

macro_rules! floats {
    ($($kind:ty, $bits:ty);*) => {$(
        impl Value for $kind {
            type Key = $bits;
            fn key(self) -> $bits {
                self.to_bits()
            }
            fn size(self) -> usize {
                size_of::<$kind>()
            }
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn number(self) -> Option<Number> {
                Some(Number::Float(self.into()))
            }
            /// NaN is outside of bounds, and a bound of zero has the sign that includes both.
            fn bounds(values: &[Self]) -> Option<(Self, Self)> {
                let mut known = values.iter().copied().filter(|value| !value.is_nan());
                let first = known.next()?;
                let (least, most) =
                    known.fold((first, first), |(low, high), value| (low.min(value), high.max(value)));
                Some((if least == 0.0 { -0.0 } else { least }, if most == 0.0 { 0.0 } else { most }))
            }
        }
    )*};
}

whole_numbers!(i32, i64);
floats!(f32, u32; f64, u64);

impl Value for &[u8] {
    type Key = Self;
    fn key(self) -> Self {
        self
    }
    fn size(self) -> usize {
        4 + self.len()
    }
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&(self.len() as u32).to_le_bytes());
        to.extend_from_slice(self);
    }
    fn number(self) -> Option<Number> {
        None
    }
    fn bounds(values: &[Self]) -> Option<(Self, Self)> {
        Some((*values.iter().min()?, *values.iter().max()?))
    }
    fn bound(self) -> Vec<u8> {
        self.to_vec()
    }
}

/// A decimal number as bytes, the first one first.
#[derive(Clone, Copy)]
struct Digits {
    value: i128,
    width: usize,
}

impl Value for Digits {
    type Key = i128;
    fn key(self) -> i128 {
        self.value
    }
    fn size(self) -> usize {
        self.width
    }
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.value.to_be_bytes()[16 - self.width..]);
    }
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self.value))
    }
    fn bounds(values: &[Self]) -> Option<(Self, Self)> {
        let least = values.iter().min_by_key(|digits| digits.value)?;
        Some((*least, *values.iter().max_by_key(|digits| digits.value)?))
    }
}

/// A moment as Hive has always stored it: nanoseconds of the day, and the day of the Julian count.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Int96 {
    nanos: i64,
    day: u32,
}

impl Int96 {
    /// `units` of the value are a second.
    fn of(value: i64, units: i64) -> Self {
        let day_units = DAY_SECONDS * units;
        let day = value.div_euclid(day_units) + JULIAN_EPOCH_DAY;
        Self { nanos: value.rem_euclid(day_units) * (NANOS / units), day: day as u32 }
    }
}

impl Value for Int96 {
    type Key = Self;
    fn key(self) -> Self {
        self
    }
    fn size(self) -> usize {
        12
    }
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.nanos.to_le_bytes());
        to.extend_from_slice(&self.day.to_le_bytes());
    }
    fn number(self) -> Option<Number> {
        None
    }
    fn bounds(_: &[Self]) -> Option<(Self, Self)> {
        None
    }
}

/// A hash of a word a step. Values that were chosen to collide cost time only, as a file has few.
#[derive(Default)]
struct Quick(u64);

impl Quick {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }
    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }
    fn finish(&self) -> u64 {
        // The high bits are the mixed ones, and the table goes by the low ones.
        self.0.rotate_left(26)
    }
}
