//! A place in a binary payload; nothing in a payload is trusted.

use crate::scan::{Doubt, MAX_DEPTH, Vouched};

/// What is left of a payload, and how many levels deep the place is.
pub struct Cursor<'a> {
    pub rest: &'a [u8],
    pub depth: u32,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub fn byte(&mut self) -> Vouched<u8> {
        let (&first, rest) = self.rest.split_first().ok_or(Doubt)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline(always)]
    pub fn bytes(&mut self, count: usize) -> Vouched<&'a [u8]> {
        let (found, rest) = self.rest.split_at_checked(count).ok_or(Doubt)?;
        self.rest = rest;
        Ok(found)
    }

    pub fn array<const N: usize>(&mut self) -> Vouched<[u8; N]> {
        Ok(self.bytes(N)?.try_into().expect("so many bytes"))
    }

    /// A whole number of up to 64 bits, seven of them a byte, the lowest first.
    #[inline(always)]
    pub fn varint(&mut self) -> Vouched<u64> {
        let first = self.byte()?;
        let mut value = u64::from(first & 0x7f);
        if first >= 0x80 {
            let mut shift = 7;
            loop {
                let byte = self.byte()?;
                if shift == 63 && byte > 1 {
                    return Err(Doubt);
                }
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
                shift += 7;
            }
        }
        Ok(value)
    }

    #[inline(always)]
    pub fn enter(&mut self) -> Vouched<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Doubt) } else { Ok(()) }
    }
}

/// A number whose sign is its lowest bit.
#[inline(always)]
pub fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
