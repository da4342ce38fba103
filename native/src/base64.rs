//! Base64 to the letter: padded, and no bit set behind the last byte.

use crate::scan::{Doubt, Vouched};

const NO_DIGIT: u8 = 0xff;
const DIGITS: [u8; 256] = digits();
/// Bytes of the widest number that is read here.
const MAX_NUMBER_BYTES: usize = 16;

const fn digits() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut found = [NO_DIGIT; 256];
    let mut value = 0;
    while value < alphabet.len() {
        found[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    found
}

/// Append the bytes that a text stands for.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Vouched<()> {
    if !text.len().is_multiple_of(4) {
        return Err(Doubt);
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    if padding > 2 {
        return Err(Doubt);
    }
    for quad in text[..text.len() - padding].chunks(4) {
        let mut bits = 0_u32;
        for &byte in quad {
            let digit = DIGITS[byte as usize];
            if digit == NO_DIGIT {
                return Err(Doubt);
            }
            bits = bits << 6 | u32::from(digit);
        }
        let bytes = quad.len() - 1;
        // Left over: 4 bits behind one byte, 2 behind two.
        let rest = 6 * quad.len() - 8 * bytes;
        if bits & ((1 << rest) - 1) != 0 {
            return Err(Doubt);
        }
        let whole = (bits >> rest).to_be_bytes();
        out.extend_from_slice(&whole[4 - bytes..]);
    }
    Ok(())
}

/// The signed number that 1 to 16 bytes are.
pub fn number(text: &[u8]) -> Vouched<i128> {
    if text.len() > MAX_NUMBER_BYTES.div_ceil(3) * 4 {
        return Err(Doubt);
    }
    let mut bytes = Vec::with_capacity(MAX_NUMBER_BYTES + 2);
    decode(text, &mut bytes)?;
    signed(&bytes)
}

/// The signed number that 1 to 16 bytes are, the first one being the greatest.
#[inline(always)]
pub fn signed(bytes: &[u8]) -> Vouched<i128> {
    let &first = bytes.first().ok_or(Doubt)?;
    if bytes.len() > MAX_NUMBER_BYTES {
        return Err(Doubt);
    }
    let mut all = if first & 0x80 == 0 { [0; MAX_NUMBER_BYTES] } else { [0xff; MAX_NUMBER_BYTES] };
    all[MAX_NUMBER_BYTES - bytes.len()..].copy_from_slice(bytes);
    Ok(i128::from_be_bytes(all))
}
