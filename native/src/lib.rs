//! The native module of Sluiceway: Kafka and RocketMQ -> buffers, and exact JSON, Avro, Protobuf and CSV
//! -> typed Arrow columns.
//!
//! The decoder vouches for rows or doubts them, and never decides that one is dirty: rows in doubt are
//! decided by the package's slow path. Optional; the package works without it.

mod arrays;
mod avro;
mod base64;
mod chunk;
mod columns;
mod consumer;
mod crc32;
mod csv;
mod cursor;
mod decoder;
mod given;
mod levels;
mod librdkafka;
mod number;
mod objects;
mod parquet;
mod protobuf;
mod pulls;
mod push;
mod records;
mod rows;
mod scan;
mod thrift;
mod time;

use pyo3::prelude::*;

/// Raised with every change of what Python may call or expect.
const INTERFACE: u32 = 8;

#[pymodule]
fn sluiceway_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<avro::AvroReader>()?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<csv::CsvReader>()?;
    module.add_class::<decoder::JsonReader>()?;
    module.add_class::<parquet::SmallParquet>()?;
    module.add_class::<protobuf::ProtobufReader>()?;
    module.add_class::<pulls::Pulls>()?;
    module.add_class::<records::Records>()
}
