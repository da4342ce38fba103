//! CRC-32 of zlib (reflected, polynomial 0xEDB88320), eight bytes a step.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut level = 1;
    while level < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[level - 1][byte];
            tables[level][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        level += 1;
    }
    tables
}

/// The checksum of some bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut value = !0u32;
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(value);
        value = 0;
        for (place, table) in TABLES.iter().rev().enumerate() {
            value ^= table[(word >> (8 * place) & 0xFF) as usize];
        }
    }
    for &byte in rest {
        value = value >> 8 ^ TABLES[0][((value ^ u32::from(byte)) & 0xFF) as usize];
    }
    !value
}
