//! A consumer of librdkafka that hands over whole fetches as buffers.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Mutex;
use std::{process, ptr, slice};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::librdkafka::{
    CONF_OK, CONSUMER, Library, Message, NO_ERROR, TIMESTAMP_NOT_AVAILABLE, owned_text,
};
use crate::records::{NO_TIMESTAMP, Place, Records};

const ERROR_TEXT_BYTES: usize = 512;

/// A code of librdkafka, and its words for what happened.
type Failure = (c_int, String);
/// Topic, partition and offset of what is no record, with the code and words.
type Event = (String, i32, i64, c_int, String);
/// Topic, partition, offset to begin at, leader epoch or -1.
type Start = (String, i32, i64, i32);

/// What the library tells by callbacks, from any of its threads.
type Told = Mutex<Vec<Failure>>;

/// A consumer that is assigned its logs. Used by one thread at a time.
#[pyclass(module = "sluiceway_native")]
pub struct Consumer {
    library: Library,
    client: *mut c_void,
    queue: *mut c_void,
    told: Box<Told>,
    messages: Vec<*mut Message>,
    process: u32,
}

// SAFETY: librdkafka's handles may be used from any thread, and `messages` is empty between calls.
unsafe impl Send for Consumer {}
// SAFETY: nothing is done through a shared reference but reading the process id.
unsafe impl Sync for Consumer {}

extern "C" fn on_error(
    _client: *mut c_void,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is the consumer's `told`, which outlives the client; `reason` is a C string.
    let (told, text) = unsafe { (&*opaque.cast::<Told>(), owned_text(reason)) };
    if let Ok(mut failures) = told.lock() {
        failures.push((code, text));
    }
}

extern "C" fn on_log(_: *const c_void, _: c_int, _: *const c_char, _: *const c_char) {}

fn c_string(text: &str) -> PyResult<CString> {
    CString::new(text).map_err(|_| PyValueError::new_err("a text holds a NUL"))
}

#[pymethods]
impl Consumer {
    /// Make a consumer; librdkafka's words are the error when it refuses a setting.
    #[new]
    fn new(library: &str, settings: Vec<(String, String)>) -> PyResult<Self> {
        let library = Library::open(library).map_err(PyRuntimeError::new_err)?;
        let settings = settings
            .iter()
            .map(|(name, value)| Ok((c_string(name)?, c_string(value)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let told: Box<Told> = Box::default();
        let mut text = [0 as c_char; ERROR_TEXT_BYTES];
        // SAFETY: calls as the header has them; the configuration belongs to us until `new` took it.
        let client = unsafe {
            let conf = (library.conf_new)();
            for (name, value) in &settings {
                let (name, value) = (name.as_ptr(), value.as_ptr());
                if (library.conf_set)(conf, name, value, text.as_mut_ptr(), text.len()) != CONF_OK {
                    (library.conf_destroy)(conf);
                    return Err(PyValueError::new_err(owned_text(text.as_ptr())));
                }
            }
            (library.conf_set_opaque)(conf, ptr::from_ref(&*told).cast_mut().cast());
            (library.conf_set_error_cb)(conf, on_error);
            (library.conf_set_log_cb)(conf, on_log);
            let client = (library.new)(CONSUMER, conf, text.as_mut_ptr(), text.len());
            if client.is_null() {
                (library.conf_destroy)(conf);
                return Err(PyValueError::new_err(owned_text(text.as_ptr())));
            }
            (library.poll_set_consumer)(client);
            client
        };
        // SAFETY: a live client.
        let queue = unsafe { (library.queue_get_consumer)(client) };
        Ok(Self { library, client, queue, told, messages: vec![], process: process::id() })
    }

    /// The library's version, as in its header.
    #[staticmethod]
    fn library_version(library: &str) -> PyResult<c_int> {
        let library = Library::open(library).map_err(PyRuntimeError::new_err)?;
        // SAFETY: needs nothing.
        Ok(unsafe { (library.version)() })
    }

    /// Replace the assignment; the failure when the library refuses it.
    fn assign(&mut self, py: Python<'_>, places: Vec<Start>) -> PyResult<Option<Failure>> {
        self.check()?;
        let list = self.list(&places)?;
        let this = &*self;
        let code = py.detach(|| {
            let list = list;
            // SAFETY: live handles; the list is ours.
            unsafe {
                let code = (this.library.assign)(this.client, list.0);
                (this.library.topic_partition_list_destroy)(list.0);
                code
            }
        });
        Ok(self.failure(code))
    }

    /// Take logs off the assignment; the failure when the library refuses it.
    fn incremental_unassign(
        &mut self,
        py: Python<'_>,
        logs: Vec<(String, i32)>,
    ) -> PyResult<Option<Failure>> {
        self.check()?;
        let places: Vec<Start> =
            logs.into_iter().map(|(topic, partition)| (topic, partition, 0, -1)).collect();
        let list = self.list(&places)?;
        let this = &*self;
        let code = py.detach(|| {
            let list = list;
            // SAFETY: live handles; list and error are ours.
            unsafe {
                let error = (this.library.incremental_unassign)(this.client, list.0);
                (this.library.topic_partition_list_destroy)(list.0);
                if error.is_null() {
                    return NO_ERROR;
                }
                let code = (this.library.error_code)(error);
                (this.library.error_destroy)(error);
                code
            }
        });
        Ok(self.failure(code))
    }

    /// First offset and end of a log from its leader, or the failure.
    fn watermarks(
        &mut self,
        py: Python<'_>,
        topic: &str,
        partition: i32,
        timeout_ms: c_int,
    ) -> PyResult<(i64, i64, Option<Failure>)> {
        self.check()?;
        let topic = c_string(topic)?;
        let (mut low, mut high) = (0, 0);
        let this = &*self;
        let code = py.detach(|| {
            let (query, name) = (this.library.query_watermark_offsets, topic.as_ptr());
            // SAFETY: a live client, a C string and two places to write to.
            unsafe { query(this.client, name, partition, &mut low, &mut high, timeout_ms) }
        });
        Ok((low, high, self.failure(code)))
    }

    /// Take up to `most` messages: records by log, in the order they came, and what is none.
    fn fetch(
        &mut self,
        py: Python<'_>,
        most: usize,
        timeout_ms: c_int,
    ) -> PyResult<(Vec<Records>, Vec<Event>)> {
        self.check()?;
        Ok(py.detach(|| self.take(most, timeout_ms)))
    }

    /// What the library told since the last call about its connections.
    fn failures(&self) -> Vec<Failure> {
        self.told.lock().map(|mut told| std::mem::take(&mut *told)).unwrap_or_default()
    }

    /// Leave the brokers and free everything. Safe to repeat.
    fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

/// A list that one call uses.
struct List(*mut c_void);
// SAFETY: used by one thread.
unsafe impl Send for List {}

impl Consumer {
    fn check(&self) -> PyResult<()> {
        if self.client.is_null() {
            return Err(PyRuntimeError::new_err("the consumer is closed"));
        }
        Ok(())
    }

    fn failure(&self, code: c_int) -> Option<Failure> {
        // SAFETY: the library's own text for the code.
        (code != NO_ERROR).then(|| (code, unsafe { owned_text((self.library.err2str)(code)) }))
    }

    fn list(&self, places: &[Start]) -> PyResult<List> {
        let names: Vec<CString> =
            places.iter().map(|place| c_string(&place.0)).collect::<PyResult<_>>()?;
        // SAFETY: the list is new, and an element lives until the next one is added.
        let list = unsafe { (self.library.topic_partition_list_new)(places.len() as c_int) };
        for (name, &(_, partition, offset, leader_epoch)) in names.iter().zip(places) {
            // SAFETY: as above.
            unsafe {
                let place = (self.library.topic_partition_list_add)(list, name.as_ptr(), partition);
                (*place).offset = offset;
                (self.library.topic_partition_set_leader_epoch)(place, leader_epoch);
            }
        }
        Ok(List(list))
    }

    fn take(&mut self, most: usize, timeout_ms: c_int) -> (Vec<Records>, Vec<Event>) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.clear();
        messages.resize(most, ptr::null_mut());
        // SAFETY: a live queue, and room for `most` messages, which are ours afterwards.
        let count = unsafe {
            let into = messages.as_mut_ptr();
            (self.library.consume_batch_queue)(self.queue, timeout_ms, into, most)
        };
        let mut fetch = Fetch { library: &self.library, records: vec![], events: vec![] };
        let (mut last, mut group) = ((ptr::null_mut(), 0), 0);
        for &message in &messages[..usize::try_from(count).unwrap_or(0)] {
            // SAFETY: the library's message, destroyed once, after its bytes are copied.
            unsafe {
                let it = &*message;
                if it.err != NO_ERROR {
                    fetch.take_event(it);
                } else {
                    // Messages come in long runs: each response is of one log.
                    if last != (it.topic, it.partition) || fetch.records.is_empty() {
                        group = fetch.group(it);
                        last = (it.topic, it.partition);
                    }
                    fetch.take_record(group, it);
                }
                (self.library.message_destroy)(message);
            }
        }
        let Fetch { mut records, events, .. } = fetch;
        records.iter_mut().for_each(Records::finish);
        messages.clear();
        self.messages = messages;
        (records, events)
    }

    fn end(&mut self) {
        let client = std::mem::replace(&mut self.client, ptr::null_mut());
        // After a fork the client's threads are another process's.
        if client.is_null() || self.process != process::id() {
            return;
        }
        // SAFETY: live handles, used no more.
        unsafe {
            (self.library.consumer_close)(client);
            (self.library.queue_destroy)(self.queue);
            (self.library.destroy)(client);
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.end();
    }
}

struct Fetch<'a> {
    library: &'a Library,
    records: Vec<Records>,
    events: Vec<Event>,
}

impl Fetch<'_> {
    /// # Safety
    /// `message` is one of the library's, and alive.
    unsafe fn topic(&self, message: &Message) -> String {
        if message.topic.is_null() {
            return String::new();
        }
        // SAFETY: the message's own topic.
        unsafe { owned_text((self.library.topic_name)(message.topic)) }
    }

    /// The number of the records of a message's log.
    ///
    /// # Safety
    /// As of `topic`.
    unsafe fn group(&mut self, message: &Message) -> usize {
        // SAFETY: as promised.
        let topic = unsafe { self.topic(message) };
        let same = |one: &Records| one.partition == message.partition && one.topic == topic;
        self.records.iter().position(same).unwrap_or_else(|| {
            self.records.push(Records::new(topic, message.partition));
            self.records.len() - 1
        })
    }

    /// # Safety
    /// As of `topic`.
    unsafe fn take_event(&mut self, message: &Message) {
        // SAFETY: as promised.
        let (topic, text) =
            unsafe { (self.topic(message), owned_text((self.library.message_errstr)(message))) };
        self.events.push((topic, message.partition, message.offset, message.err, text));
    }

    /// # Safety
    /// As of `topic`.
    unsafe fn take_record(&mut self, group: usize, message: &Message) {
        let records = &mut self.records[group];
        // SAFETY: the message's bytes live until it is destroyed, and are copied.
        unsafe {
            let mut kind = TIMESTAMP_NOT_AVAILABLE;
            let time = (self.library.message_timestamp)(message, &mut kind);
            let place = Place {
                offset: message.offset,
                timestamp_ms: if kind == TIMESTAMP_NOT_AVAILABLE { NO_TIMESTAMP } else { time },
                leader_epoch: (self.library.message_leader_epoch)(message),
            };
            let key = bytes(message.key, message.key_len);
            records.push(place, key, bytes(message.payload, message.len));
            let mut headers = ptr::null_mut();
            if (self.library.message_headers)(message, &mut headers) != NO_ERROR {
                return;
            }
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            for index in 0.. {
                let get = self.library.header_get_all;
                if get(headers, index, &mut name, &mut value, &mut size) != NO_ERROR {
                    break;
                }
                let name = std::ffi::CStr::from_ptr(name);
                records.push_header(name.to_bytes(), bytes(value, size));
            }
        }
    }
}

/// # Safety
/// `start` is null or has `length` bytes that live long enough.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as promised.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, length) })
}
