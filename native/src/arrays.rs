//! Columns being built, and their hand-over by the Arrow C Data Interface.

use std::ffi::c_void;
use std::ptr;

/// `struct ArrowArray` of the Arrow C Data Interface.
#[repr(C)]
pub struct ArrowArray {
    pub length: i64,
    null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: an exported array owns all that it points to.
unsafe impl Send for ArrowArray {}

/// What a buffer of no bytes points to: some readers do not take just any address.
static NO_BYTES: [u128; 4] = [0; 4];

struct Owned {
    _data: Vec<Box<dyn Send>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

impl ArrowArray {
    /// Hand over a finished array.
    ///
    /// `buffers` are in the order of the type's layout, from the validity bitmap on.
    pub fn new(
        length: usize,
        null_count: usize,
        buffers: Vec<Buffer>,
        children: Vec<ArrowArray>,
    ) -> Self {
        let mut owned = Box::new(Owned {
            buffers: buffers.iter().map(|buffer| buffer.address).collect(),
            _data: buffers.into_iter().filter_map(|buffer| buffer.data).collect(),
            children: children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect(),
        });
        Self {
            length: length as i64,
            null_count: null_count as i64,
            offset: 0,
            n_buffers: owned.buffers.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, as the interface has it.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: called once, by whoever holds the array; `new` made what it points to. A child
    // that was moved out has no `release` any more, and its drop does nothing.
    unsafe {
        (*array).release = None;
        let owned = Box::from_raw((*array).private_data.cast::<Owned>());
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
    }
}

/// One buffer of an array, with what owns it.
pub struct Buffer {
    address: *const c_void,
    data: Option<Box<dyn Send>>,
}

impl Buffer {
    fn absent() -> Self {
        Self { address: ptr::null(), data: None }
    }

    fn of<T: Send + 'static>(values: Vec<T>) -> Self {
        if values.is_empty() {
            return Self { address: NO_BYTES.as_ptr().cast(), data: None };
        }
        let address = values.as_ptr().cast();
        Self { address, data: Some(Box::new(values)) }
    }
}

/// A bitmap, least significant bit first.
#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    #[inline(always)]
    fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.bytes[self.length / 8] |= u8::from(bit) << (self.length % 8);
        self.length += 1;
    }

    fn truncate(&mut self, length: usize) {
        self.length = length;
        self.bytes.truncate(length.div_ceil(8));
        if !length.is_multiple_of(8) {
            self.bytes[length / 8] &= (1 << (length % 8)) - 1;
        }
    }

    fn zeros(&self) -> usize {
        let ones: u32 = self.bytes.iter().map(|byte| byte.count_ones()).sum();
        self.length - ones as usize
    }

    fn filled(length: usize) -> Self {
        let mut found = Self { bytes: vec![0xff; length.div_ceil(8)], length };
        found.truncate(length);
        found
    }

    fn take(&mut self) -> Buffer {
        self.length = 0;
        Buffer::of(std::mem::take(&mut self.bytes))
    }
}

/// Which values are null; costs nothing before the first one is.
#[derive(Default)]
pub struct Validity {
    bits: Option<Bits>,
}

impl Validity {
    #[inline(always)]
    pub fn push_valid(&mut self) {
        if let Some(bits) = &mut self.bits {
            bits.push(true);
        }
    }

    /// `length` is the number of values before.
    #[inline(always)]
    pub fn push_null(&mut self, length: usize) {
        self.bits.get_or_insert_with(|| Bits::filled(length)).push(false);
    }

    pub fn truncate(&mut self, length: usize) {
        if let Some(bits) = &mut self.bits {
            bits.truncate(length);
        }
    }

    /// The number of nulls, and the bitmap when there are any.
    fn take(&mut self) -> (usize, Buffer) {
        match self.bits.take() {
            Some(mut bits) if bits.zeros() > 0 => (bits.zeros(), bits.take()),
            _ => (0, Buffer::absent()),
        }
    }
}

/// A column of numbers.
#[derive(Default)]
pub struct Values<T> {
    values: Vec<T>,
    validity: Validity,
}

impl<T: Copy + Default + Send + 'static> Values<T> {
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
        self.validity.push_valid();
    }

    pub fn push_null(&mut self) {
        self.validity.push_null(self.values.len());
        self.values.push(T::default());
    }

    pub fn since(&self, start: usize) -> &[T] {
        &self.values[start..]
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
        self.validity.truncate(length);
    }

    pub fn take(&mut self) -> ArrowArray {
        let length = self.values.len();
        let (nulls, validity) = self.validity.take();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(length));
        ArrowArray::new(length, nulls, vec![validity, Buffer::of(values)], vec![])
    }
}

/// A column of truth values.
#[derive(Default)]
pub struct Booleans {
    bits: Bits,
    validity: Validity,
}

impl Booleans {
    #[inline(always)]
    pub fn push(&mut self, value: bool) {
        self.bits.push(value);
        self.validity.push_valid();
    }

    pub fn push_null(&mut self) {
        self.validity.push_null(self.bits.length);
        self.bits.push(false);
    }

    pub fn len(&self) -> usize {
        self.bits.length
    }

    pub fn truncate(&mut self, length: usize) {
        self.bits.truncate(length);
        self.validity.truncate(length);
    }

    pub fn take(&mut self) -> ArrowArray {
        let length = self.bits.length;
        let (nulls, validity) = self.validity.take();
        ArrowArray::new(length, nulls, vec![validity, self.bits.take()], vec![])
    }
}

/// Where each value of a column of texts, lists or maps begins in what lies below it.
pub struct Offsets {
    offsets: Vec<i32>,
    validity: Validity,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { offsets: vec![0], validity: Validity::default() }
    }
}

impl Offsets {
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where the next value begins.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }

    /// A value that ends at `end`, which a block's size keeps within 32 bits.
    #[inline(always)]
    pub fn push(&mut self, end: usize) {
        debug_assert!(i32::try_from(end).is_ok());
        self.offsets.push(end as i32);
        self.validity.push_valid();
    }

    pub fn push_null(&mut self) {
        self.validity.push_null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
    }

    /// Keep `length` values; what lies below them is to end at the answer.
    pub fn truncate(&mut self, length: usize) -> usize {
        self.offsets.truncate(length + 1);
        self.validity.truncate(length);
        self.end()
    }

    /// Hand over with what lies below: `data` of a text, `children` of others.
    pub fn take(&mut self, data: Option<Vec<u8>>, children: Vec<ArrowArray>) -> ArrowArray {
        let length = self.len();
        let (nulls, validity) = self.validity.take();
        let mut fresh = Vec::with_capacity(length + 1);
        fresh.push(0);
        let mut buffers = vec![validity, Buffer::of(std::mem::replace(&mut self.offsets, fresh))];
        buffers.extend(data.map(Buffer::of));
        ArrowArray::new(length, nulls, buffers, children)
    }
}

/// A column of texts.
#[derive(Default)]
pub struct Texts {
    pub offsets: Offsets,
    data: Vec<u8>,
}

impl Texts {
    #[inline(always)]
    pub fn push(&mut self, text: &[u8]) {
        self.data.extend_from_slice(text);
        self.offsets.push(self.data.len());
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Bytes to append to, and where they begin; `finish` or `truncate` is to follow.
    pub fn open(&mut self) -> (&mut Vec<u8>, usize) {
        let start = self.data.len();
        (&mut self.data, start)
    }

    pub fn finish(&mut self) {
        self.offsets.push(self.data.len());
    }

    /// The texts from number `start` on.
    pub fn since(&self, start: usize) -> impl Iterator<Item = &[u8]> {
        self.offsets.offsets[start..]
            .windows(2)
            .map(|bounds| &self.data[bounds[0] as usize..bounds[1] as usize])
    }

    pub fn truncate(&mut self, length: usize) {
        let end = self.offsets.truncate(length);
        self.data.truncate(end);
    }

    pub fn take(&mut self) -> ArrowArray {
        let capacity = self.data.len();
        let data = std::mem::replace(&mut self.data, Vec::with_capacity(capacity));
        self.offsets.take(Some(data), vec![])
    }
}

/// A struct's own part: which of its values are null.
#[derive(Default)]
pub struct Present {
    length: usize,
    validity: Validity,
}

impl Present {
    /// Of `length` values, none of them null.
    pub fn of(length: usize) -> Self {
        Self { length, validity: Validity::default() }
    }

    #[inline(always)]
    pub fn push(&mut self) {
        self.validity.push_valid();
        self.length += 1;
    }

    pub fn push_null(&mut self) {
        self.validity.push_null(self.length);
        self.length += 1;
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn truncate(&mut self, length: usize) {
        self.validity.truncate(length);
        self.length = length;
    }

    pub fn take(&mut self, children: Vec<ArrowArray>) -> ArrowArray {
        let (nulls, validity) = self.validity.take();
        let length = std::mem::take(&mut self.length);
        ArrowArray::new(length, nulls, vec![validity], children)
    }
}
