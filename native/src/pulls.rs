//! Pulls of a RocketMQ queue as buffers.
//!
//! A pull is taken when it is what a healthy queue gives: plain messages of the queue, whole, each
//! with the body of its checksum, offsets without a hole. Everything else is a doubt: compressed
//! bodies, batches stored as one, holes, damage. The package's slow path decides it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::crc32::crc32;
use crate::records::{Place, Records, int64_bytes};
use crate::scan::{Doubt, Vouched};

const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;
/// Compressed; a batch, in two bits.
const NOT_PLAIN: i32 = 1 | 1 << 6 | 1 << 7;
const BORN_HOST_V6: i32 = 1 << 4;
const STORE_HOST_V6: i32 = 1 << 5;
const CRC_MASK: u32 = 0x7FFF_FFFF;

/// Rows of one queue, gathered from pulls. Made once a split, used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct Pulls {
    topic: String,
    queue: i32,
    records: Records,
    born: Vec<i64>,
    body_bytes: usize,
}

/// A message in its pull.
struct Message<'a> {
    stored_ms: i64,
    born_ms: i64,
    physical: i64,
    body: &'a [u8],
    properties: &'a [u8],
}

#[pymethods]
impl Pulls {
    #[new]
    fn new(topic: String, queue: i32) -> Self {
        let records = Records::new(topic.clone(), queue);
        Self { topic, queue, records, born: vec![], body_bytes: 0 }
    }

    /// Take a pull's messages from offset `first` on, those below `stop` if there is one.
    ///
    /// Returns how many were taken, and store time and place in the commit log of the last; None
    /// when the pull is in doubt: then nothing of it was taken.
    fn take(
        &mut self,
        py: Python<'_>,
        pull: &Bound<'_, PyBytes>,
        first: i64,
        stop: Option<i64>,
    ) -> Option<(usize, i64, i64)> {
        let pull = pull.as_bytes();
        py.detach(|| self.take_all(pull, first, stop)).ok()
    }

    /// Rows that were gathered.
    fn __len__(&self) -> usize {
        self.born.len()
    }

    /// Bytes of their bodies.
    #[getter]
    fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Hand over what was gathered, and the producers' times as int64; then there is nothing.
    ///
    /// The properties of a message are the key of its record, its store time the timestamp.
    fn hand_over<'py>(&mut self, py: Python<'py>) -> (Records, Bound<'py, PyBytes>) {
        let empty = Records::new(self.topic.clone(), self.queue);
        let mut records = std::mem::replace(&mut self.records, empty);
        records.finish();
        self.body_bytes = 0;
        let born = std::mem::take(&mut self.born);
        (records, int64_bytes(py, &born))
    }
}

impl Pulls {
    fn take_all(
        &mut self,
        pull: &[u8],
        first: i64,
        stop: Option<i64>,
    ) -> Vouched<(usize, i64, i64)> {
        let mut found = Vec::with_capacity(32);
        let mut rest = Bytes(pull);
        let mut offset = first;
        while !rest.0.is_empty() {
            found.push(self.message(&mut rest, offset)?);
            offset = offset.checked_add(1).ok_or(Doubt)?;
        }
        let wanted = stop.map_or(found.len() as i64, |stop| stop.saturating_sub(first));
        found.truncate(usize::try_from(wanted).map_err(|_| Doubt)?);
        let last = found.last().map(|last| (last.stored_ms, last.physical)).ok_or(Doubt)?;
        for (message, offset) in found.iter().zip(first..) {
            let place = Place { offset, timestamp_ms: message.stored_ms, leader_epoch: -1 };
            self.records.push(place, Some(message.properties), Some(message.body));
            self.born.push(message.born_ms);
            self.body_bytes += message.body.len();
        }
        Ok((found.len(), last.0, last.1))
    }

    /// The message that comes next, when it is one of the queue, at an offset.
    fn message<'a>(&self, rest: &mut Bytes<'a>, wanted: i64) -> Vouched<Message<'a>> {
        let size = Bytes(rest.0).length()?;
        let mut bytes = Bytes(rest.take(size)?);
        bytes.take(4)?;
        let (magic, crc) = (bytes.u32()?, bytes.u32()?);
        let queue = bytes.i32()?;
        bytes.take(4)?;
        let (offset, physical) = (bytes.i64()?, bytes.i64()?);
        let flag = bytes.i32()?;
        let born_ms = bytes.i64()?;
        bytes.take(if flag & BORN_HOST_V6 != 0 { 20 } else { 8 })?;
        let stored_ms = bytes.i64()?;
        bytes.take(if flag & STORE_HOST_V6 != 0 { 20 } else { 8 })?;
        // Redeliveries, and where a transaction began.
        bytes.take(12)?;
        let length = bytes.length()?;
        let body = bytes.take(length)?;
        let length = match magic {
            MAGIC_V1 => usize::from(bytes.take(1)?[0]),
            MAGIC_V2 => bytes.short_length()?,
            _ => return Err(Doubt),
        };
        let topic = bytes.take(length)?;
        let length = bytes.short_length()?;
        let properties = bytes.take(length)?;
        let own = queue == self.queue && topic == self.topic.as_bytes() && offset == wanted;
        let plain = flag & NOT_PLAIN == 0 && stored_ms >= 0 && born_ms >= 0;
        if own && plain && bytes.0.is_empty() && (crc32(body) ^ crc) & CRC_MASK == 0 {
            return Ok(Message { stored_ms, born_ms, physical, body, properties });
        }
        Err(Doubt)
    }
}

/// Bytes that are left; numbers are big-endian.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Vouched<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Doubt)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Vouched<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Doubt)
    }

    fn u32(&mut self) -> Vouched<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Vouched<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Vouched<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    fn length(&mut self) -> Vouched<usize> {
        usize::try_from(self.i32()?).map_err(|_| Doubt)
    }

    fn short_length(&mut self) -> Vouched<usize> {
        usize::try_from(i16::from_be_bytes(self.array()?)).map_err(|_| Doubt)
    }
}
