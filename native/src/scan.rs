//! Walks over one payload: white space, strings, and values that no column takes.
//!
//! A reader vouches for nothing but JSON as RFC 8259 has it, in UTF-8, nested at most
//! `MAX_DEPTH` levels deep, and for NaN and infinities where no column looks. Everything else
//! is a doubt, and the row is decided elsewhere.

use std::slice;

use crate::number;

/// Levels of arrays and objects; the slow path's limit.
pub const MAX_DEPTH: u32 = 100;
/// Readable bytes behind the last payload's NUL.
pub const PADDING: usize = 64;

/// The row must be decided by the slow path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt;

pub type Vouched<T> = Result<T, Doubt>;

/// The inside of a JSON string, as it stands in the payload.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub escaped: bool,
}

/// A place in a payload.
///
/// Invariant: the payload is followed by a NUL, and that by `PADDING` readable bytes, or by
/// other payloads and then those. `at` never moves past the first NUL, which is neither JSON
/// nor inside a JSON string; so no step needs to look for the end.
pub struct Reader<'a> {
    at: *const u8,
    block: &'a [u8],
    depth: u32,
    /// Texts without their escapes, one at a time.
    pub scratch: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// A reader of nothing yet.
    ///
    /// `block` ends with a NUL and `PADDING` more bytes.
    pub fn new(block: &'a [u8], scratch: Vec<u8>) -> Self {
        assert!(block.len() > PADDING && block[block.len() - PADDING - 1] == 0);
        Self { at: block.as_ptr(), block, depth: 0, scratch }
    }

    /// Go to a payload of the block; a NUL stands behind each.
    pub fn go_to(&mut self, start: usize) {
        assert!(start < self.block.len() - PADDING);
        self.at = self.block[start..].as_ptr();
        self.depth = 0;
    }

    /// Go to a value inside of the object that a payload is.
    pub fn go_inside(&mut self, start: usize) {
        self.go_to(start);
        self.depth = 1;
    }

    /// Levels of arrays and objects around this place.
    #[inline(always)]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Called after `rewind`, with the depth at the mark.
    pub fn restore_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// The place in the block.
    pub fn position(&self) -> usize {
        self.at as usize - self.block.as_ptr() as usize
    }

    #[inline(always)]
    pub fn mark(&self) -> *const u8 {
        self.at
    }

    /// Go back to a mark of the same payload.
    #[inline(always)]
    pub fn rewind(&mut self, mark: *const u8) {
        debug_assert!(mark <= self.at);
        self.at = mark;
    }

    #[inline(always)]
    pub fn peek(&self) -> u8 {
        // SAFETY: `at` is at most at a NUL of the block.
        unsafe { *self.at }
    }

    #[inline(always)]
    fn byte(&self, ahead: usize) -> u8 {
        debug_assert!(ahead <= PADDING);
        // SAFETY: `PADDING` bytes behind the last NUL are readable.
        unsafe { *self.at.add(ahead) }
    }

    /// The next eight bytes, read as a little-endian number.
    #[inline(always)]
    pub fn eight(&self) -> u64 {
        // SAFETY: as in `byte`.
        u64::from_le(unsafe { self.at.cast::<u64>().read_unaligned() })
    }

    /// Step over bytes that are known to be no NUL.
    #[inline(always)]
    pub fn skip(&mut self, count: usize) {
        // SAFETY: the caller has looked at them; so the first NUL is still ahead.
        self.at = unsafe { self.at.add(count) };
    }

    /// What lies between a mark and the place now.
    #[inline(always)]
    pub fn since(&self, mark: *const u8) -> &'a [u8] {
        // SAFETY: both are in the block, `mark` before `at`.
        unsafe { slice::from_raw_parts(mark, self.at as usize - mark as usize) }
    }

    #[inline(always)]
    pub fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.skip(1);
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Vouched<()> {
        if self.peek() != byte {
            return Err(Doubt);
        }
        self.skip(1);
        Ok(())
    }

    /// Step over `word`, which has no NUL and is no longer than `PADDING`.
    #[inline(always)]
    pub fn word(&mut self, word: &[u8]) -> Vouched<()> {
        if !self.starts_with(word) {
            return Err(Doubt);
        }
        self.skip(word.len());
        Ok(())
    }

    /// `word` is no longer than `PADDING`.
    #[inline(always)]
    pub fn starts_with(&self, word: &[u8]) -> bool {
        debug_assert!(word.len() <= PADDING);
        // SAFETY: `PADDING` bytes behind the last NUL are readable.
        unsafe { slice::from_raw_parts(self.at, word.len()) == word }
    }

    /// Step into an array or object.
    #[inline(always)]
    pub fn enter(&mut self) -> Vouched<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Doubt);
        }
        self.skip(1);
        self.skip_space();
        Ok(())
    }

    /// Step out, over its closing bracket.
    #[inline(always)]
    pub fn leave(&mut self) {
        self.depth -= 1;
        self.skip(1);
    }

    /// After an item: true when there is another one, false in front of `closing`.
    #[inline(always)]
    pub fn another(&mut self, closing: u8) -> Vouched<bool> {
        self.skip_space();
        let found = self.peek();
        if found == b',' {
            self.skip(1);
            self.skip_space();
            return Ok(true);
        }
        if found == closing { Ok(false) } else { Err(Doubt) }
    }

    /// Step over a string, whose opening quote is next, and check its bytes.
    #[inline(always)]
    pub fn string(&mut self) -> Vouched<Text<'a>> {
        self.expect(b'"')?;
        let begin = self.at;
        let mut escaped = false;
        let mut wide = 0;
        loop {
            let (special, high) = self.sixteen();
            if special == 0 {
                wide |= high;
                self.skip(16);
                continue;
            }
            let ahead = special.trailing_zeros();
            wide |= high & ((1 << ahead) - 1);
            self.skip(ahead as usize);
            match self.peek() {
                b'"' => break,
                b'\\' if self.byte(1) >= b' ' => {
                    escaped = true;
                    self.skip(2);
                }
                _ => return Err(Doubt),
            }
        }
        let raw = self.since(begin);
        self.skip(1);
        // A byte behind a backslash was stepped over unseen.
        if (wide != 0 || escaped) && std::str::from_utf8(raw).is_err() {
            return Err(Doubt);
        }
        Ok(Text { raw, escaped })
    }

    /// Of the next 16 bytes: which end a run of plain text, which are beyond ASCII.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn sixteen(&self) -> (u32, u32) {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_or_si128, _mm_set1_epi8,
        };
        // SAFETY: SSE2 belongs to x86_64; the bytes are readable as in `byte`.
        unsafe {
            let bytes = _mm_loadu_si128(self.at.cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            let special = _mm_or_si128(_mm_or_si128(quote, slash), control);
            (_mm_movemask_epi8(special) as u32, _mm_movemask_epi8(bytes) as u32)
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn sixteen(&self) -> (u32, u32) {
        let (mut special, mut high) = (0, 0);
        for ahead in 0..16 {
            let byte = self.byte(ahead);
            special |= u32::from(byte == b'"' || byte == b'\\' || byte < b' ') << ahead;
            high |= u32::from(byte >= 0x80) << ahead;
        }
        (special, high)
    }

    /// The text without its escapes; in `scratch` when it has some.
    pub fn plain<'s>(&'s mut self, text: Text<'a>) -> Vouched<&'s [u8]> {
        if !text.escaped {
            return Ok(text.raw);
        }
        self.scratch.clear();
        unescape(text.raw, &mut self.scratch)?;
        Ok(&self.scratch)
    }

    /// Step over any value, checking that it is JSON.
    pub fn skip_value(&mut self) -> Vouched<()> {
        match self.peek() {
            b'"' => self.skip_string(),
            b'{' => self.skip_object(),
            b'[' => self.skip_array(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'-' if matches!(self.byte(1), b'N' | b'I') => {
                self.skip(1);
                self.skip_non_finite()
            }
            b'N' | b'I' => self.skip_non_finite(),
            _ => number::skip(self),
        }
    }

    /// NaN and infinities are no JSON, but harmless where no column looks.
    fn skip_non_finite(&mut self) -> Vouched<()> {
        let known: [&[u8]; 3] = [b"NaN", b"Infinity", b"Inf"];
        known.iter().find_map(|word| self.word(word).ok()).ok_or(Doubt)
    }

    /// Step over a string that nobody wants; its escapes are looked at all the same.
    pub fn skip_string(&mut self) -> Vouched<()> {
        let text = self.string()?;
        self.plain(text).map(|_| ())
    }

    fn skip_object(&mut self) -> Vouched<()> {
        self.enter()?;
        if self.peek() != b'}' {
            loop {
                self.skip_string()?;
                self.skip_space();
                self.expect(b':')?;
                self.skip_space();
                self.skip_value()?;
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn skip_array(&mut self) -> Vouched<()> {
        self.enter()?;
        if self.peek() != b']' {
            loop {
                self.skip_value()?;
                if !self.another(b']')? {
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }
}

/// Append `raw` to `out` with each escape replaced by what it stands for.
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Vouched<()> {
    let mut rest = raw;
    while let Some(plain) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..plain]);
        let kind = *rest.get(plain + 1).ok_or(Doubt)?;
        rest = &rest[plain + 2..];
        let byte = match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (found, length) = unicode(rest)?;
                rest = &rest[length..];
                out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return Err(Doubt),
        };
        out.push(byte);
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The character behind `\u`, and how many bytes tell it; half of a surrogate pair is a doubt.
fn unicode(rest: &[u8]) -> Vouched<(char, usize)> {
    let first = four_hex(rest)?;
    if let Some(found) = char::from_u32(first) {
        return Ok((found, 4));
    }
    if first >= 0xdc00 || rest.get(4..6) != Some(b"\\u") {
        return Err(Doubt);
    }
    let second = four_hex(&rest[6..])?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(Doubt);
    }
    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(code).map(|found| (found, 10)).ok_or(Doubt)
}

fn four_hex(bytes: &[u8]) -> Vouched<u32> {
    let digits = bytes.get(..4).ok_or(Doubt)?;
    digits.iter().try_fold(0, |value, &digit| {
        char::from(digit).to_digit(16).map(|found| value * 16 + found).ok_or(Doubt)
    })
}
