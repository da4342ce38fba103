//! Thrift's compact protocol, as far as Parquet's headers and footers need it.

use crate::scan::{Doubt, Vouched};

pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

/// Append a number, seven bits a byte, the least ones first.
pub fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Writes structs; their fields are to come in rising order of their numbers.
#[derive(Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
    last: u8,
}

impl Writer {
    pub fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    /// A whole number of the field's type.
    pub fn number(&mut self, number: u8, kind: u8, value: i64) {
        self.field(number, kind);
        self.zigzag(value);
    }

    pub fn zigzag(&mut self, value: i64) {
        varint((value << 1 ^ value >> 63) as u64, &mut self.bytes);
    }

    pub fn binary(&mut self, number: u8, value: &[u8]) {
        self.field(number, BINARY);
        self.text(value);
    }

    pub fn text(&mut self, value: &[u8]) {
        varint(value.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(value);
    }

    /// The head of a list; its items follow.
    pub fn list(&mut self, number: u8, kind: u8, length: usize) {
        self.field(number, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(length as u64, &mut self.bytes);
        }
    }

    /// A struct in a field.
    pub fn nested(&mut self, number: u8, write: impl FnOnce(&mut Self)) {
        self.field(number, STRUCT);
        self.item(write);
    }

    /// A struct in a list, or the outermost one.
    pub fn item(&mut self, write: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.last);
        write(self);
        self.bytes.push(0);
        self.last = outer;
    }
}

/// Reads structs that another writer made.
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Vouched<u8> {
        let found = *self.bytes.get(self.at).ok_or(Doubt)?;
        self.at += 1;
        Ok(found)
    }

    fn varint(&mut self) -> Vouched<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err(Doubt);
            }
        }
    }

    pub fn number(&mut self) -> Vouched<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn text(&mut self) -> Vouched<&'a [u8]> {
        let length = self.varint()? as usize;
        let found = self.bytes.get(self.at..).and_then(|rest| rest.get(..length)).ok_or(Doubt)?;
        self.at += length;
        Ok(found)
    }

    /// Type and number of a list's items.
    pub fn list(&mut self) -> Vouched<(u8, usize)> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((head & 15, length as usize))
    }

    /// Each field of a struct: its number and type; `read` consumes its value.
    pub fn fields(
        &mut self,
        mut read: impl FnMut(&mut Self, i64, u8) -> Vouched<()>,
    ) -> Vouched<()> {
        let mut number = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            number = if head >> 4 == 0 { self.number()? } else { number + i64::from(head >> 4) };
            read(self, number, head & 15)?;
        }
    }

    pub fn skip(&mut self, kind: u8) -> Vouched<()> {
        match kind {
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            I16..=I64 => self.varint().map(drop),
            7 => {
                self.at += 8;
                Ok(())
            }
            BINARY => self.text().map(drop),
            LIST | 10 => {
                let (kind, length) = self.list()?;
                (0..length).try_for_each(|_| match kind {
                    1 | 2 => self.byte().map(drop),
                    _ => self.skip(kind),
                })
            }
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind)),
            _ => Err(Doubt),
        }
    }
}
