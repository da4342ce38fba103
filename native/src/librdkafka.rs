//! The part of librdkafka's C API that a consumer needs, from a library that is already there.
//!
//! Signatures and structs are those of `rdkafka.h`, which keeps them stable.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

pub const CONSUMER: c_int = 1;
pub const NO_ERROR: c_int = 0;
pub const CONF_OK: c_int = 0;
pub const TIMESTAMP_NOT_AVAILABLE: c_int = 0;

/// `rd_kafka_message_t`.
#[repr(C)]
pub struct Message {
    pub err: c_int,
    pub topic: *mut c_void,
    pub partition: i32,
    pub payload: *const u8,
    pub len: usize,
    pub key: *const u8,
    pub key_len: usize,
    pub offset: i64,
    private: *mut c_void,
}

/// The beginning of `rd_kafka_topic_partition_t`.
#[repr(C)]
pub struct TopicPartition {
    topic: *mut c_char,
    partition: i32,
    pub offset: i64,
}

pub type OnError = extern "C" fn(*mut c_void, c_int, *const c_char, *mut c_void);
pub type OnLog = extern "C" fn(*const c_void, c_int, *const c_char, *const c_char);

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of the library, by their names without `rd_kafka_`.
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            /// Open the library at `path`; it stays open.
            pub fn open(path: &str) -> Result<Self, String> {
                let path = CString::new(path).map_err(|error| error.to_string())?;
                // SAFETY: a C string; what the library does when it is loaded was done before,
                // since the package's own client uses it.
                let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
                if handle.is_null() {
                    return Err(format!("{} cannot be opened", path.to_string_lossy()));
                }
                Ok(Self {
                    // SAFETY: these names have these signatures in the library's header.
                    $($name: unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >(symbol(handle, concat!("rd_kafka_", stringify!($name)))?)
                    },)*
                })
            }
        }
    };
}

functions! {
    version() -> c_int;
    conf_new() -> *mut c_void;
    conf_set(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_destroy(*mut c_void);
    conf_set_opaque(*mut c_void, *mut c_void);
    conf_set_error_cb(*mut c_void, OnError);
    conf_set_log_cb(*mut c_void, OnLog);
    new(c_int, *mut c_void, *mut c_char, usize) -> *mut c_void;
    poll_set_consumer(*mut c_void) -> c_int;
    queue_get_consumer(*mut c_void) -> *mut c_void;
    topic_partition_list_new(c_int) -> *mut c_void;
    topic_partition_list_add(*mut c_void, *const c_char, i32) -> *mut TopicPartition;
    topic_partition_set_leader_epoch(*mut TopicPartition, i32);
    topic_partition_list_destroy(*mut c_void);
    assign(*mut c_void, *const c_void) -> c_int;
    incremental_unassign(*mut c_void, *const c_void) -> *mut c_void;
    error_code(*const c_void) -> c_int;
    error_destroy(*mut c_void);
    consume_batch_queue(*mut c_void, c_int, *mut *mut Message, usize) -> isize;
    message_destroy(*mut Message);
    message_timestamp(*const Message, *mut c_int) -> i64;
    message_headers(*const Message, *mut *mut c_void) -> c_int;
    header_get_all(*const c_void, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int;
    message_leader_epoch(*const Message) -> i32;
    message_errstr(*const Message) -> *const c_char;
    topic_name(*const c_void) -> *const c_char;
    err2str(c_int) -> *const c_char;
    query_watermark_offsets(*mut c_void, *const c_char, i32, *mut i64, *mut i64, c_int) -> c_int;
    consumer_close(*mut c_void) -> c_int;
    queue_destroy(*mut c_void);
    destroy(*mut c_void);
}

fn symbol(handle: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let text = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: an open handle and a C string.
    let found = unsafe { libc::dlsym(handle, text.as_ptr()) };
    if found.is_null() { Err(format!("the library has no {name}")) } else { Ok(found) }
}

/// The library's text, empty for none.
///
/// # Safety
/// `text` is null or a C string that lives during the call.
pub unsafe fn owned_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
