//! Protobuf's wire format -> typed Arrow columns, by the message that payloads were written as.
//!
//! As `formats/protobuf/reader.py` reads it; what that refuses is a doubt here. So is a field that
//! comes twice, and a second member of a oneof: the last one counts, and columns only grow.

use std::slice;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::base64;
use crate::columns::{Column, Unit, finish_map, push_text};
use crate::cursor::{Cursor, zigzag};
use crate::objects::Fields;
use crate::push::{
    push_boolean, push_bytes, push_day, push_float, push_instant, push_number, push_symbol,
};
use crate::records::Records;
use crate::rows::{
    FetchedRows, ListRows, Plan, RowColumns, RowReader, part, read_fetched, read_list, row_columns,
    unknown,
};
use crate::scan::{Doubt, Vouched};
use crate::time::days_of;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const GROUP_BEGIN: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;
const END_NUMBER: u64 = 1 << 29;

const NS_PER_S: i128 = 1_000_000_000;
const NS_PER_US: i64 = 1000;
const MAX_DECIMAL_BYTES: usize = 512;
const MAX_SCALE: i32 = 1000;
const MICROSECONDS: Unit = Unit { times: 1, per: 1 };

impl<'a> Cursor<'a> {
    /// Number and wire type of the next field.
    #[inline(always)]
    fn tag(&mut self) -> Vouched<(u64, u64)> {
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, tag & 7);
        if number == 0 || number >= END_NUMBER || wire > FIXED32 {
            return Err(Doubt);
        }
        Ok((number, wire))
    }

    /// The part behind its length.
    #[inline(always)]
    fn part(&mut self) -> Vouched<Cursor<'a>> {
        let length = usize::try_from(self.varint()?).map_err(|_| Doubt)?;
        Ok(Cursor { rest: self.bytes(length)?, depth: self.depth })
    }

    fn int32(&mut self) -> Vouched<i32> {
        i32::try_from(self.varint()? as i64).map_err(|_| Doubt)
    }

    fn uint32(&mut self) -> Vouched<u32> {
        u32::try_from(self.varint()?).map_err(|_| Doubt)
    }

    fn truth(&mut self) -> Vouched<bool> {
        match self.varint()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Doubt),
        }
    }

    /// Step over a field that the message does not have.
    fn skip_unknown(&mut self, number: u64, wire: u64) -> Vouched<()> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.bytes(8).map(drop),
            LENGTH => self.part().map(drop),
            FIXED32 => self.bytes(4).map(drop),
            GROUP_BEGIN => {
                self.enter()?;
                loop {
                    let (inner, wire) = self.tag()?;
                    if wire == GROUP_END {
                        self.depth -= 1;
                        return if inner == number { Ok(()) } else { Err(Doubt) };
                    }
                    self.skip_unknown(inner, wire)?;
                }
            }
            _ => Err(Doubt),
        }
    }
}

/// The fields of a message: each with `field`, called with its number and wire type.
///
/// With `group` the message ends at that group's mark, else where the cursor does.
#[inline(always)]
fn fields_of(
    cursor: &mut Cursor,
    group: Option<u64>,
    mut field: impl FnMut(&mut Cursor, u64, u64) -> Vouched<()>,
) -> Vouched<()> {
    cursor.enter()?;
    loop {
        if cursor.rest.is_empty() && group.is_none() {
            break;
        }
        let (number, wire) = cursor.tag()?;
        if wire == GROUP_END {
            if group != Some(number) {
                return Err(Doubt);
            }
            break;
        }
        field(cursor, number, wire)?;
    }
    cursor.depth -= 1;
    Ok(())
}

/// The message of a field: behind its length, or a group.
#[inline(always)]
fn inside<T>(
    cursor: &mut Cursor,
    number: u64,
    wire: u64,
    read: impl FnOnce(&mut Cursor, Option<u64>) -> Vouched<T>,
) -> Vouched<T> {
    if wire == GROUP_BEGIN {
        return read(cursor, Some(number));
    }
    read(&mut cursor.part()?, None)
}

// Fields that no column reads: their bytes are checked all the same.

enum Check {
    Int32,
    Uint32,
    Varint,
    Boolean,
    Size(usize),
    Sized,
    Timestamp,
    Duration,
    /// By its number: a message may hold itself.
    Message(usize),
}

struct CheckedField {
    number: u64,
    wire: u64,
    packable: bool,
    check: Check,
}

/// The messages that fields without a column hold.
type Checks = [Vec<CheckedField>];

impl CheckedField {
    fn read(&self, checks: &Checks, cursor: &mut Cursor, wire: u64) -> Vouched<()> {
        if wire == self.wire {
            return self.check.value(checks, cursor, self.number, wire);
        }
        if wire != LENGTH || !self.packable {
            return Err(Doubt);
        }
        let mut packed = cursor.part()?;
        while !packed.rest.is_empty() {
            self.check.value(checks, &mut packed, self.number, self.wire)?;
        }
        Ok(())
    }
}

impl Check {
    fn value(&self, checks: &Checks, cursor: &mut Cursor, number: u64, wire: u64) -> Vouched<()> {
        match self {
            Self::Int32 => cursor.int32().map(drop),
            Self::Uint32 => cursor.uint32().map(drop),
            Self::Varint => cursor.varint().map(drop),
            Self::Boolean => cursor.truth().map(drop),
            Self::Size(size) => cursor.bytes(*size).map(drop),
            Self::Sized => cursor.part().map(drop),
            Self::Timestamp => inside(cursor, number, wire, timestamp).map(drop),
            Self::Duration => inside(cursor, number, wire, duration).map(drop),
            Self::Message(message) => inside(cursor, number, wire, |at, group| {
                let fields = &checks[*message];
                fields_of(at, group, |at, number, wire| {
                    match fields.binary_search_by_key(&number, |field| field.number) {
                        Ok(place) => fields[place].read(checks, at, wire),
                        Err(_) => at.skip_unknown(number, wire),
                    }
                })
            }),
        }
    }
}

/// `seconds` and `nanos` of a time; the last of several counts.
fn time_parts(cursor: &mut Cursor, group: Option<u64>) -> Vouched<(i64, i64)> {
    let (mut seconds, mut nanos) = (0, 0);
    fields_of(cursor, group, |at, number, wire| {
        match (number, wire) {
            (1, VARINT) => seconds = at.varint()? as i64,
            (2, VARINT) => nanos = i64::from(at.int32()?),
            (1 | 2, _) => return Err(Doubt),
            _ => at.skip_unknown(number, wire)?,
        }
        Ok(())
    })?;
    Ok((seconds, nanos))
}

fn timestamp(cursor: &mut Cursor, group: Option<u64>) -> Vouched<(i64, i64)> {
    let (seconds, nanos) = time_parts(cursor, group)?;
    if (0..NS_PER_S as i64).contains(&nanos) { Ok((seconds, nanos)) } else { Err(Doubt) }
}

/// In nanoseconds.
fn duration(cursor: &mut Cursor, group: Option<u64>) -> Vouched<i128> {
    let (seconds, nanos) = time_parts(cursor, group)?;
    let one_sign = seconds.signum() * nanos.signum() >= 0;
    if i128::from(nanos).abs() >= NS_PER_S || !one_sign {
        return Err(Doubt);
    }
    Ok(i128::from(seconds) * NS_PER_S + i128::from(nanos))
}

// Fields that columns read

enum Whole {
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
}

impl Whole {
    #[inline(always)]
    fn read(&self, cursor: &mut Cursor) -> Vouched<i128> {
        Ok(match self {
            Self::Int32 => i128::from(cursor.int32()?),
            Self::Int64 => i128::from(cursor.varint()? as i64),
            Self::Uint32 => i128::from(cursor.uint32()?),
            Self::Uint64 => i128::from(cursor.varint()?),
            Self::Sint32 => i128::from(zigzag(u64::from(cursor.uint32()?))),
            Self::Sint64 => i128::from(zigzag(cursor.varint()?)),
            Self::Fixed32 => i128::from(u32::from_le_bytes(cursor.array()?)),
            Self::Fixed64 => i128::from(u64::from_le_bytes(cursor.array()?)),
            Self::Sfixed32 => i128::from(i32::from_le_bytes(cursor.array()?)),
            Self::Sfixed64 => i128::from(i64::from_le_bytes(cursor.array()?)),
        })
    }
}

/// How the bytes of a value become a column's.
enum How {
    Whole(Whole),
    Float,
    Double,
    Boolean,
    Text,
    Bytes,
    /// Names by number, rising.
    Symbols(Vec<(i32, Vec<u8>)>),
    /// A whole number that counts times.
    Moment(Whole, Unit),
    Timestamp,
    Duration,
    /// A message that stands for its `value`.
    Wrapper(Box<Message>),
    Struct(Box<Message>),
    /// Digits and scale.
    Decimal(Box<Message>, Box<[Column; 2]>),
    /// Year, month and day.
    Date(Box<Message>, Box<[Column; 3]>),
}

fn push_whole(column: &mut Column, value: i128) -> Vouched<()> {
    match i64::try_from(value) {
        Ok(value) => push_number(column, value),
        Err(_) => column.push_scaled(value, 0),
    }
}

impl How {
    /// Read a value that is no message.
    #[inline(always)]
    fn read(&self, column: &mut Column, cursor: &mut Cursor) -> Vouched<()> {
        match self {
            Self::Whole(of) => push_whole(column, of.read(cursor)?),
            Self::Text => push_text(column, cursor.part()?.rest),
            Self::Double => push_float(column, f64::from_le_bytes(cursor.array()?)),
            Self::Float => push_float(column, f64::from(f32::from_le_bytes(cursor.array()?))),
            Self::Boolean => push_boolean(column, cursor.truth()?),
            Self::Bytes => push_bytes(column, cursor.part()?.rest),
            Self::Symbols(names) => push_symbol(column, symbol(names, cursor.int32()?)?),
            Self::Moment(of, unit) => push_moment(column, of.read(cursor)?, *unit),
            _ => Err(Doubt),
        }
    }

    #[inline(always)]
    fn is_message(&self) -> bool {
        matches!(
            self,
            Self::Timestamp
                | Self::Duration
                | Self::Wrapper(_)
                | Self::Struct(_)
                | Self::Decimal(..)
                | Self::Date(..)
        )
    }

    /// Read a value that is a message, standing in it.
    fn read_message(
        &mut self,
        column: &mut Column,
        checks: &Checks,
        cursor: &mut Cursor,
        group: Option<u64>,
    ) -> Vouched<()> {
        match self {
            Self::Timestamp => {
                let (seconds, nanos) = timestamp(cursor, group)?;
                if nanos % NS_PER_US != 0 {
                    return Err(Doubt);
                }
                let time_us = seconds.checked_mul(1_000_000).ok_or(Doubt)?;
                let time_us = time_us.checked_add(nanos / NS_PER_US).ok_or(Doubt)?;
                push_instant(column, MICROSECONDS.instant(time_us)?)
            }
            Self::Duration => column.push_scaled(duration(cursor, group)?, 9),
            Self::Wrapper(message) => message.read(slice::from_mut(column), checks, cursor, group),
            Self::Struct(message) => {
                let Column::Struct { present, fields } = column else { return Err(Doubt) };
                message.read(fields, checks, cursor, group)?;
                present.push();
                Ok(())
            }
            Self::Decimal(message, parts) => {
                parts.iter_mut().for_each(|part| part.truncate(0));
                message.read(&mut parts[..], checks, cursor, group)?;
                let (Column::Bytes(digits), Column::Int32(scale)) = (&parts[0], &parts[1]) else {
                    return Err(Doubt);
                };
                let digits = digits.since(0).next().ok_or(Doubt)?;
                let &scale = scale.since(0).first().ok_or(Doubt)?;
                if digits.len() > MAX_DECIMAL_BYTES || scale.abs() > MAX_SCALE {
                    return Err(Doubt);
                }
                column.push_scaled(base64::signed(digits)?, scale)
            }
            Self::Date(message, parts) => {
                parts.iter_mut().for_each(|part| part.truncate(0));
                message.read(&mut parts[..], checks, cursor, group)?;
                let mut numbers = [0; 3];
                for (number, part) in numbers.iter_mut().zip(parts.iter()) {
                    let Column::Int32(values) = part else { return Err(Doubt) };
                    *number = *values.since(0).first().ok_or(Doubt)?;
                }
                let [year, month, day] = numbers;
                push_day(column, i64::from(days_of(year, month, day)?))
            }
            _ => Err(Doubt),
        }
    }

    /// Push the value of a field that is not set, and cannot be null.
    fn push_default(&mut self, column: &mut Column, checks: &Checks) -> Vouched<()> {
        match self {
            Self::Whole(_) => push_number(column, 0),
            Self::Float | Self::Double => push_float(column, 0.0),
            Self::Boolean => push_boolean(column, false),
            Self::Text => push_text(column, b""),
            Self::Bytes => push_bytes(column, b""),
            Self::Symbols(names) => push_symbol(column, symbol(names, 0)?),
            Self::Moment(_, unit) => push_moment(column, 0, *unit),
            _ => self.read_message(column, checks, &mut Cursor { rest: b"", depth: 0 }, None),
        }
    }
}

fn push_moment(column: &mut Column, number: i128, unit: Unit) -> Vouched<()> {
    push_instant(column, unit.instant(i64::try_from(number).map_err(|_| Doubt)?)?)
}

/// The name of a number, mostly at its place.
#[inline(always)]
fn symbol(names: &[(i32, Vec<u8>)], number: i32) -> Vouched<&[u8]> {
    if let Some((at, name)) = usize::try_from(number).ok().and_then(|place| names.get(place))
        && *at == number
    {
        return Ok(name);
    }
    let place = names.binary_search_by_key(&number, |&(at, _)| at).map_err(|_| Doubt)?;
    Ok(&names[place].1)
}

/// The columns that the fields of a message go to, by number.
trait Columns {
    fn column(&mut self, number: usize) -> &mut Column;
}

impl Columns for [(Column, bool)] {
    #[inline(always)]
    fn column(&mut self, number: usize) -> &mut Column {
        &mut self[number].0
    }
}

impl Columns for [Column] {
    #[inline(always)]
    fn column(&mut self, number: usize) -> &mut Column {
        &mut self[number]
    }
}

impl Columns for Fields {
    #[inline(always)]
    fn column(&mut self, number: usize) -> &mut Column {
        Fields::column(self, number)
    }
}

/// Keys and values of a map.
struct Entries<'a>(&'a mut Column, &'a mut Column);

impl Columns for Entries<'_> {
    fn column(&mut self, number: usize) -> &mut Column {
        if number == 0 { self.0 } else { self.1 }
    }
}

/// What reads a field.
enum Taker {
    /// A field that is not set is null, where it has presence.
    One {
        number: usize,
        how: How,
        presence: bool,
        required: bool,
    },
    List {
        number: usize,
        how: How,
        required: bool,
    },
    Map {
        number: usize,
        entry: Box<Message>,
        required: bool,
    },
    /// A message whose fields are wanted one by one.
    Inside(Box<Message>),
}

struct Field {
    number: u64,
    wire: u64,
    /// Several values may come as one.
    packable: bool,
    repeated: bool,
    oneof: Option<usize>,
    /// The last message that had the field.
    met: u64,
    check: CheckedField,
    takers: Vec<Taker>,
}

/// The fields of a message, by number, rising.
struct Message {
    fields: Vec<Field>,
    /// Columns of which the message has nothing, and whether they must have a value.
    absent: Vec<(usize, bool)>,
    /// Of each oneof the last message that had a member, and the member.
    oneofs: Vec<(u64, u64)>,
    reads: u64,
}

impl Message {
    fn read<T: Columns + ?Sized>(
        &mut self,
        to: &mut T,
        checks: &Checks,
        cursor: &mut Cursor,
        group: Option<u64>,
    ) -> Vouched<()> {
        self.reads += 1;
        let mut next = 0;
        fields_of(cursor, group, |at, number, wire| {
            let place = match self.fields.get(next) {
                Some(field) if field.number == number => next,
                _ => match self.fields.binary_search_by_key(&number, |field| field.number) {
                    Ok(place) => place,
                    Err(_) => return at.skip_unknown(number, wire),
                },
            };
            next = place + 1;
            self.field(place, to, checks, at, wire)
        })?;
        self.finish(to, checks)
    }

    #[inline(always)]
    fn field<T: Columns + ?Sized>(
        &mut self,
        place: usize,
        to: &mut T,
        checks: &Checks,
        cursor: &mut Cursor,
        wire: u64,
    ) -> Vouched<()> {
        let field = &mut self.fields[place];
        if let Some(oneof) = field.oneof {
            let (read, member) = self.oneofs[oneof];
            if read == self.reads && member != field.number {
                return Err(Doubt);
            }
            self.oneofs[oneof] = (self.reads, field.number);
        }
        let twice = std::mem::replace(&mut field.met, self.reads) == self.reads;
        if let [taker] = &mut *field.takers {
            if twice && !field.repeated {
                return Err(Doubt);
            }
            return taker.read(
                to,
                checks,
                cursor,
                (field.number, wire, field.wire, field.packable),
            );
        }
        if field.takers.is_empty() {
            return field.check.read(checks, cursor, wire);
        }
        if twice && !field.repeated {
            return Err(Doubt);
        }
        let (rest, depth) = (cursor.rest, cursor.depth);
        for taker in &mut field.takers {
            (cursor.rest, cursor.depth) = (rest, depth);
            taker.read(to, checks, cursor, (field.number, wire, field.wire, field.packable))?;
        }
        Ok(())
    }

    /// Fields that were not set, and the ends of lists and maps.
    fn finish<T: Columns + ?Sized>(&mut self, to: &mut T, checks: &Checks) -> Vouched<()> {
        for field in &mut self.fields {
            let met = field.met == self.reads;
            for taker in &mut field.takers {
                taker.finish(to, checks, met)?;
            }
        }
        self.absent.iter().try_for_each(|&(number, required)| miss(to, number, required))
    }

    /// There is no such message: all its columns are null.
    fn miss<T: Columns + ?Sized>(&self, to: &mut T) -> Vouched<()> {
        for taker in self.fields.iter().flat_map(|field| &field.takers) {
            match taker {
                Taker::One { number, required, .. } => miss(to, *number, *required)?,
                Taker::List { number, required, .. } | Taker::Map { number, required, .. } => {
                    miss(to, *number, *required)?;
                }
                Taker::Inside(message) => message.miss(to)?,
            }
        }
        self.absent.iter().try_for_each(|&(number, required)| miss(to, number, required))
    }
}

fn miss<T: Columns + ?Sized>(to: &mut T, number: usize, required: bool) -> Vouched<()> {
    to.column(number).push_null();
    if required { Err(Doubt) } else { Ok(()) }
}

/// Number of a field, the wire type that came, its own, and whether values may be packed.
type Wired = (u64, u64, u64, bool);

impl Taker {
    #[inline(always)]
    fn read<T: Columns + ?Sized>(
        &mut self,
        to: &mut T,
        checks: &Checks,
        cursor: &mut Cursor,
        (number, wire, own, packable): Wired,
    ) -> Vouched<()> {
        if wire != own {
            return match self {
                Self::List { number, how, .. } if packable && wire == LENGTH => {
                    let Column::List { items, .. } = to.column(*number) else { return Err(Doubt) };
                    let mut packed = cursor.part()?;
                    while !packed.rest.is_empty() {
                        how.read(items, &mut packed)?;
                    }
                    Ok(())
                }
                _ => Err(Doubt),
            };
        }
        match self {
            Self::One { number: column, how, .. } => {
                read_value(how, to.column(*column), checks, cursor, number, wire)
            }
            Self::List { number: column, how, .. } => match to.column(*column) {
                Column::List { items, .. } => read_value(how, items, checks, cursor, number, wire),
                _ => Err(Doubt),
            },
            Self::Map { number: column, entry, .. } => match to.column(*column) {
                Column::Map { keys, values, .. } => inside(cursor, number, wire, |at, group| {
                    entry.read(&mut Entries(keys, values), checks, at, group)
                }),
                _ => Err(Doubt),
            },
            Self::Inside(message) => {
                inside(cursor, number, wire, |at, group| message.read(to, checks, at, group))
            }
        }
    }

    #[inline(always)]
    fn finish<T: Columns + ?Sized>(
        &mut self,
        to: &mut T,
        checks: &Checks,
        met: bool,
    ) -> Vouched<()> {
        match self {
            Self::One { number, how, presence, required } => match (met, &presence) {
                (true, _) => Ok(()),
                (false, true) => miss(to, *number, *required),
                (false, false) => how.push_default(to.column(*number), checks),
            },
            Self::List { number, .. } => {
                let Column::List { offsets, items } = to.column(*number) else {
                    return Err(Doubt);
                };
                offsets.push(items.len());
                Ok(())
            }
            Self::Map { number, .. } => match to.column(*number) {
                Column::Map { offsets, keys, .. } => finish_map(offsets, keys),
                _ => Err(Doubt),
            },
            Self::Inside(message) => {
                if met {
                    Ok(())
                } else {
                    message.miss(to)
                }
            }
        }
    }
}

#[inline(always)]
fn read_value(
    how: &mut How,
    column: &mut Column,
    checks: &Checks,
    cursor: &mut Cursor,
    number: u64,
    wire: u64,
) -> Vouched<()> {
    if how.is_message() {
        return inside(cursor, number, wire, |at, group| {
            how.read_message(column, checks, at, group)
        });
    }
    how.read(column, cursor)
}

/// Reads payloads of one message. Made once a message and task, used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct ProtobufReader {
    columns: RowColumns,
    message: Message,
    checks: Vec<Vec<CheckedField>>,
}

#[pymethods]
impl ProtobufReader {
    #[new]
    fn new(
        columns: Vec<(Plan<'_>, bool)>,
        message: Plan<'_>,
        checks: Vec<Vec<Plan<'_>>>,
    ) -> PyResult<Self> {
        let columns = row_columns(columns)?;
        let message = message_of(&message, columns.len())?;
        let count = checks.len();
        let checks = checks
            .iter()
            .map(|fields| fields.iter().map(|plan| checked_of(plan, count)).collect())
            .collect::<PyResult<_>>()?;
        Ok(Self { columns, message, checks })
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

impl RowReader for ProtobufReader {
    fn read_row(&mut self, payload: &[u8]) -> Vouched<()> {
        let mut cursor = Cursor { rest: payload, depth: 0 };
        self.message.read(&mut self.columns[..], &self.checks, &mut cursor, None)
    }

    fn columns(&mut self) -> &mut RowColumns {
        &mut self.columns
    }
}

// As Python plans them: tuples of a name, then what that needs.

/// `(fields, absent, oneofs)`, of a message that fills so many columns.
fn message_of(plan: &Plan, count: usize) -> PyResult<Message> {
    let fields: Vec<Plan> = part(plan, 0)?;
    let absent: Vec<(usize, bool)> = part(plan, 1)?;
    let oneofs: usize = part(plan, 2)?;
    let fields = fields.iter().map(|field| field_of(field, count, oneofs));
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    if let Some((number, _)) = absent.iter().find(|(number, _)| *number >= count) {
        return unknown("column", &number.to_string());
    }
    if !fields.is_sorted_by_key(|field| field.number) {
        return unknown("order of fields", "unsorted");
    }
    Ok(Message { fields, absent, oneofs: vec![(0, 0); oneofs], reads: 0 })
}

/// `(checked, repeated, oneof, takers)`
fn field_of(plan: &Plan, count: usize, oneofs: usize) -> PyResult<Field> {
    let check = checked_of(&part(plan, 0)?, usize::MAX)?;
    let takers: Vec<Plan> = part(plan, 3)?;
    let oneof: Option<usize> = part(plan, 2)?;
    if oneof.is_some_and(|oneof| oneof >= oneofs) {
        return unknown("oneof", "beyond the message's");
    }
    Ok(Field {
        number: check.number,
        wire: check.wire,
        packable: check.packable,
        repeated: part(plan, 1)?,
        oneof,
        met: 0,
        check,
        takers: takers.iter().map(|taker| taker_of(taker, count)).collect::<PyResult<_>>()?,
    })
}

/// `(number, wire, packable, check)`
fn checked_of(plan: &Plan, count: usize) -> PyResult<CheckedField> {
    let check: Plan = part(plan, 3)?;
    let name: String = part(&check, 0)?;
    let check = match name.as_str() {
        "int32" => Check::Int32,
        "uint32" => Check::Uint32,
        "varint" => Check::Varint,
        "boolean" => Check::Boolean,
        "size" => Check::Size(part(&check, 1)?),
        "sized" => Check::Sized,
        "timestamp" => Check::Timestamp,
        "duration" => Check::Duration,
        "message" => match part(&check, 1)? {
            number if number < count => Check::Message(number),
            _ => return unknown("message", "beyond the last"),
        },
        _ => return unknown("value to check", &name),
    };
    Ok(CheckedField {
        number: part(plan, 0)?,
        wire: part(plan, 1)?,
        packable: part(plan, 2)?,
        check,
    })
}

fn taker_of(plan: &Plan, count: usize) -> PyResult<Taker> {
    let name: String = part(plan, 0)?;
    let number = |place| -> PyResult<usize> {
        let number = part(plan, place)?;
        if number < count { Ok(number) } else { unknown("column", &number.to_string()) }
    };
    Ok(match name.as_str() {
        "one" => Taker::One {
            number: number(1)?,
            how: how_of(&part(plan, 2)?)?,
            presence: part(plan, 3)?,
            required: part(plan, 4)?,
        },
        "list" => Taker::List {
            number: number(1)?,
            how: how_of(&part(plan, 2)?)?,
            required: part(plan, 3)?,
        },
        "map" => Taker::Map {
            number: number(1)?,
            entry: Box::new(message_of(&part(plan, 2)?, 2)?),
            required: part(plan, 3)?,
        },
        "inside" => Taker::Inside(Box::new(message_of(&part(plan, 1)?, count)?)),
        _ => return unknown("way to take a field", &name),
    })
}

fn how_of(plan: &Plan) -> PyResult<How> {
    let name: String = part(plan, 0)?;
    let message =
        |count| -> PyResult<Box<Message>> { Ok(Box::new(message_of(&part(plan, 1)?, count)?)) };
    Ok(match name.as_str() {
        "float" => How::Float,
        "double" => How::Double,
        "boolean" => How::Boolean,
        "text" => How::Text,
        "bytes" => How::Bytes,
        "symbols" => How::Symbols(part(plan, 1)?),
        "moment" => {
            let unit = Unit { times: part(plan, 2)?, per: part(plan, 3)? };
            How::Moment(whole_of(&part::<String>(plan, 1)?)?, unit)
        }
        "timestamp" => How::Timestamp,
        "duration" => How::Duration,
        "wrapper" => How::Wrapper(message(1)?),
        "struct" => How::Struct(message(part(plan, 2)?)?),
        "decimal" => {
            let parts = [Column::Bytes(Default::default()), Column::Int32(Default::default())];
            How::Decimal(message(2)?, Box::new(parts))
        }
        "date" => {
            How::Date(message(3)?, Box::new([(); 3].map(|()| Column::Int32(Default::default()))))
        }
        _ => How::Whole(whole_of(&name)?),
    })
}

fn whole_of(name: &str) -> PyResult<Whole> {
    Ok(match name {
        "int32" => Whole::Int32,
        "int64" => Whole::Int64,
        "uint32" => Whole::Uint32,
        "uint64" => Whole::Uint64,
        "sint32" => Whole::Sint32,
        "sint64" => Whole::Sint64,
        "fixed32" => Whole::Fixed32,
        "fixed64" => Whole::Fixed64,
        "sfixed32" => Whole::Sfixed32,
        "sfixed64" => Whole::Sfixed64,
        _ => return unknown("way to read a value", name),
    })
}
