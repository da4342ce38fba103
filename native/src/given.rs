//! Columns that Python hands over by the Arrow C Data Interface.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::arrays::ArrowArray;

/// `struct ArrowSchema` of the Arrow C Data Interface; whoever exported it releases it.
#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: *const c_void,
    private_data: *mut c_void,
}

/// Types of Arrow that files of a table have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Decimal,
    /// So many of its units are a second.
    Instant(i64),
    Bytes,
    LongBytes,
    List,
    LongList,
    Map,
    Struct,
}

impl Kind {
    fn of(format: &str) -> Option<Self> {
        Some(match format {
            "b" => Self::Boolean,
            "c" => Self::Int8,
            "s" => Self::Int16,
            "i" | "tdD" | "ttm" => Self::Int32,
            "l" | "ttu" | "ttn" => Self::Int64,
            "f" => Self::Float32,
            "g" => Self::Float64,
            "u" | "z" => Self::Bytes,
            "U" | "Z" => Self::LongBytes,
            "+l" => Self::List,
            "+L" => Self::LongList,
            "+m" => Self::Map,
            "+s" => Self::Struct,
            _ if format.starts_with("d:") && format.split(',').count() == 2 => Self::Decimal,
            _ => match format.get(..4)? {
                "tss:" => Self::Instant(1),
                "tsm:" => Self::Instant(1_000),
                "tsu:" => Self::Instant(1_000_000),
                "tsn:" => Self::Instant(1_000_000_000),
                _ => return None,
            },
        })
    }

    /// Bytes of a value in the second buffer; 0 where they are no whole number.
    fn width(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::Float32 | Self::Bytes | Self::List | Self::Map => 4,
            Self::Int64 | Self::Float64 | Self::Instant(_) | Self::LongBytes | Self::LongList => 8,
            Self::Decimal => 16,
            Self::Boolean | Self::Struct => 0,
        }
    }
}

/// A column, or what lies inside one; positions are those of the column, its offset added here.
pub struct Given<'a> {
    pub kind: Kind,
    pub length: usize,
    pub children: Vec<Given<'a>>,
    /// Texts by number, where `kind` is that of the numbers.
    pub dictionary: Option<Box<Given<'a>>>,
    offset: usize,
    validity: Option<&'a [u8]>,
    fixed: &'a [u8],
    data: &'a [u8],
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

impl<'a> Given<'a> {
    /// A column as it was exported; the error names a type that no file has.
    ///
    /// # Safety
    /// Both are as the interface has them, and outlive `'a`.
    pub unsafe fn new(schema: &'a ArrowSchema, array: &'a ArrowArray) -> Result<Self, String> {
        // SAFETY: promised by the caller; the format is a C string in every exported schema.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_string_lossy();
        let kind = Kind::of(&format).ok_or_else(|| format.to_string())?;
        let (length, offset) = (array.length as usize, array.offset as usize);
        let end = offset + length;
        // SAFETY: buffers are as long as the type's layout says for this length and offset.
        let buffer = |number: usize, bytes: usize| unsafe {
            let address = (*array.buffers.add(number)).cast::<u8>();
            (bytes > 0 && !address.is_null()).then(|| slice::from_raw_parts(address, bytes))
        };
        let validity = if array.n_buffers > 0 { buffer(0, end.div_ceil(8)) } else { None };
        let fixed_bytes = match kind {
            Kind::Struct => 0,
            Kind::Boolean => end.div_ceil(8),
            Kind::Bytes | Kind::LongBytes | Kind::List | Kind::LongList | Kind::Map
                if length > 0 =>
            {
                (end + 1) * kind.width()
            }
            _ => end * kind.width(),
        };
        let fixed = if fixed_bytes > 0 { buffer(1, fixed_bytes).unwrap_or(&[]) } else { &[] };
        let mut found = Self {
            kind,
            length,
            children: vec![],
            dictionary: None,
            offset,
            validity,
            fixed,
            data: &[],
        };
        if matches!(kind, Kind::Bytes | Kind::LongBytes) && length > 0 {
            found.data = buffer(2, found.bounds(length - 1).1).unwrap_or(&[]);
        }
        for number in 0..array.n_children as usize {
            // SAFETY: an array has the children that its schema has.
            let (schema, array) =
                unsafe { (&**schema.children.add(number), &**array.children.add(number)) };
            // SAFETY: as for the parent.
            found.children.push(unsafe { Self::new(schema, array) }?);
        }
        // SAFETY: both are null or both are not.
        let dictionary = unsafe { (schema.dictionary.as_ref(), array.dictionary.as_ref()) };
        if let (Some(schema), Some(array)) = dictionary {
            // SAFETY: as for the parent.
            let texts = unsafe { Self::new(schema, array) }?;
            if !matches!(texts.kind, Kind::Bytes | Kind::LongBytes) {
                return Err("dictionary of other values than texts".to_owned());
            }
            found.dictionary = Some(Box::new(texts));
        }
        Ok(found)
    }

    pub fn valid(&self, at: usize) -> bool {
        self.validity.is_none_or(|bits| bit(bits, self.offset + at))
            && self.dictionary.as_ref().is_none_or(|texts| texts.valid(self.number(at)))
    }

    /// Whether there is nothing that says of a value that it is null.
    pub fn all_valid(&self) -> bool {
        self.validity.is_none()
            && self.dictionary.as_ref().is_none_or(|texts| texts.validity.is_none())
    }

    pub fn boolean(&self, at: usize) -> bool {
        bit(self.fixed, self.offset + at)
    }

    /// The bytes of a value of fixed size.
    pub fn raw<const WIDTH: usize>(&self, at: usize) -> [u8; WIDTH] {
        let begin = (self.offset + at) * WIDTH;
        self.fixed[begin..begin + WIDTH].try_into().expect("a slice of that length")
    }

    /// A value of fixed size as a whole number; of a dictionary, the number of the text.
    pub fn integer(&self, at: usize) -> i64 {
        match self.kind.width() {
            1 => i64::from(i8::from_le_bytes(self.raw(at))),
            2 => i64::from(i16::from_le_bytes(self.raw(at))),
            4 => i64::from(i32::from_le_bytes(self.raw(at))),
            _ => i64::from_le_bytes(self.raw(at)),
        }
    }

    fn number(&self, at: usize) -> usize {
        self.integer(at) as usize
    }

    /// Where a value begins and ends in what lies below it.
    pub fn bounds(&self, at: usize) -> (usize, usize) {
        if self.kind == Kind::Struct {
            return (self.offset + at, self.offset + at + 1);
        }
        (self.number(at), self.number(at + 1))
    }

    pub fn bytes(&self, at: usize) -> &'a [u8] {
        if let Some(texts) = &self.dictionary {
            return texts.bytes(self.number(at));
        }
        let (begin, end) = self.bounds(at);
        &self.data[begin..end]
    }
}
