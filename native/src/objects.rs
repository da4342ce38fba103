//! Objects whose keys are known: which value goes where, each key at most once.

use std::collections::HashMap;

use crate::arrays::ArrowArray;
use crate::columns::Column;
use crate::scan::{Doubt, PADDING, Reader, Vouched};

/// What a value is wanted for.
enum Taker {
    /// A column, or a field of a struct: its number among them, and whether it may be null.
    Column { column: Box<Column>, number: usize, required: bool },
    /// Columns that lie further inside.
    Inside(Fields),
}

impl Taker {
    #[inline(always)]
    fn read(&mut self, reader: &mut Reader) -> Vouched<()> {
        match self {
            Self::Column { required: true, .. } if reader.peek() == b'n' => Err(Doubt),
            Self::Column { column, .. } => column.read(reader),
            Self::Inside(fields) => {
                if reader.peek() == b'n' {
                    reader.word(b"null")?;
                    return fields.miss();
                }
                fields.read(reader)
            }
        }
    }

    fn miss(&mut self) -> Vouched<()> {
        match self {
            Self::Column { required: true, .. } => Err(Doubt),
            Self::Column { column, .. } => {
                column.push_null();
                Ok(())
            }
            Self::Inside(fields) => fields.miss(),
        }
    }
}

struct Key {
    name: Box<[u8]>,
    /// The key as it mostly comes: in quotes, a colon behind. Empty when it is too long.
    usual: Box<[u8]>,
    /// The last object that had the key.
    met: u64,
    /// Two columns may want one value.
    takers: Vec<Taker>,
}

/// A value that its column leaves to the slow path, in a payload that is JSON.
#[derive(Clone, Copy)]
pub struct DoubtedValue {
    pub column: usize,
    /// Where the value is in the reader's block.
    pub begin: usize,
    pub end: usize,
}

/// Readers for the keys of one kind of object.
#[derive(Default)]
pub struct Fields {
    keys: Vec<Key>,
    by_name: HashMap<Box<[u8]>, usize>,
    objects: u64,
    /// Values of the last object that were stepped over; None where a doubt ends the reading.
    doubted: Option<Vec<DoubtedValue>>,
}

impl Fields {
    /// Add a column at the end of `path`, whose first key is one of these objects'.
    pub fn add(&mut self, path: &[String], column: Column, number: usize, required: bool) {
        let (first, further) = path.split_first().expect("a path has a key");
        let takers = &mut self.key(first).takers;
        if further.is_empty() {
            takers.push(Taker::Column { column: Box::new(column), number, required });
            return;
        }
        let inside = takers.iter_mut().find_map(|taker| match taker {
            Taker::Inside(fields) => Some(fields),
            Taker::Column { .. } => None,
        });
        if let Some(fields) = inside {
            return fields.add(further, column, number, required);
        }
        let mut fields = Fields::default();
        fields.add(further, column, number, required);
        takers.push(Taker::Inside(fields));
    }

    fn key(&mut self, name: &str) -> &mut Key {
        let name: Box<[u8]> = name.as_bytes().into();
        let index = *self.by_name.entry(name.clone()).or_insert_with(|| {
            let plain = name.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            let usual = [b"\"", &*name, b"\":"].concat();
            let usual = if plain && usual.len() <= PADDING { usual } else { vec![] };
            self.keys.push(Key { name, usual: usual.into(), met: 0, takers: vec![] });
            self.keys.len() - 1
        });
        &mut self.keys[index]
    }

    /// Step over values in doubt from now on. Such an object is read, but is not vouched for.
    pub fn step_over_doubts(&mut self) {
        self.doubted = Some(vec![]);
    }

    /// The values that the last object was stepped over at.
    pub fn doubted(&self) -> &[DoubtedValue] {
        self.doubted.as_deref().unwrap_or_default()
    }

    /// Read the object that the reader stands on.
    pub fn read(&mut self, reader: &mut Reader) -> Vouched<()> {
        if reader.peek() != b'{' {
            return Err(Doubt);
        }
        reader.enter()?;
        self.objects += 1;
        if let Some(doubted) = &mut self.doubted {
            doubted.clear();
        }
        let (mut met, mut next) = (0, 0);
        if reader.peek() != b'}' {
            loop {
                // Most producers write keys in the same order each time.
                if let Some(index) = self.find(next, reader)? {
                    next = index + 1;
                    met += 1;
                    self.read_member(index, reader)?;
                } else {
                    reader.skip_value()?;
                }
                if !reader.another(b'}')? {
                    break;
                }
            }
        }
        reader.leave();
        if met < self.keys.len() { self.miss_rest() } else { Ok(()) }
    }

    /// Step over a key and its colon; which one it is.
    #[inline(always)]
    fn find(&self, next: usize, reader: &mut Reader) -> Vouched<Option<usize>> {
        if let Some(key) = self.keys.get(next)
            && !key.usual.is_empty()
            && reader.starts_with(&key.usual)
        {
            reader.skip(key.usual.len());
            reader.skip_space();
            return Ok(Some(next));
        }
        self.look_up(next, reader)
    }

    #[inline(never)]
    fn look_up(&self, next: usize, reader: &mut Reader) -> Vouched<Option<usize>> {
        let text = reader.string()?;
        let name = reader.plain(text)?;
        let found = match self.keys.get(next) {
            Some(key) if *key.name == *name => Some(next),
            _ => self.by_name.get(name).copied(),
        };
        reader.skip_space();
        reader.expect(b':')?;
        reader.skip_space();
        Ok(found)
    }

    #[inline(always)]
    fn read_member(&mut self, index: usize, reader: &mut Reader) -> Vouched<()> {
        let key = &mut self.keys[index];
        if key.met == self.objects {
            return Err(Doubt);
        }
        key.met = self.objects;
        let mark = reader.mark();
        if let [taker] = &mut *key.takers {
            let depth = reader.depth();
            return match (taker.read(reader), taker, &mut self.doubted) {
                (Err(Doubt), Taker::Column { number, .. }, Some(doubted)) => {
                    reader.rewind(mark);
                    step_over(*number, depth, reader, doubted)
                }
                (read, ..) => read,
            };
        }
        for taker in &mut key.takers {
            reader.rewind(mark);
            taker.read(reader)?;
        }
        Ok(())
    }

    fn miss_rest(&mut self) -> Vouched<()> {
        let objects = self.objects;
        let missed = self.keys.iter_mut().filter(|key| key.met != objects);
        missed.flat_map(|key| &mut key.takers).try_for_each(Taker::miss)
    }

    /// There is no such object: all its columns are null.
    fn miss(&mut self) -> Vouched<()> {
        self.keys.iter_mut().flat_map(|key| &mut key.takers).try_for_each(Taker::miss)
    }

    /// The column of a struct's field, by its number.
    pub fn column(&mut self, number: usize) -> &mut Column {
        // Fields of a struct are keys of their own, in order.
        match &mut self.keys[number].takers[0] {
            Taker::Column { column, .. } => column,
            Taker::Inside(_) => unreachable!("a struct's field is a column"),
        }
    }

    /// The struct is null: so are its fields, required or not.
    pub fn push_nulls(&mut self) {
        self.each(&mut |_, column| column.push_null());
    }

    pub fn truncate(&mut self, length: usize) {
        self.each(&mut |_, column| column.truncate(length));
    }

    /// Hand over the columns, by number, and begin anew.
    pub fn take(&mut self) -> Vec<ArrowArray> {
        let mut taken = Vec::new();
        self.each(&mut |number, column| taken.push((number, column.take())));
        taken.sort_unstable_by_key(|&(number, _)| number);
        taken.into_iter().map(|(_, array)| array).collect()
    }

    fn each(&mut self, act: &mut impl FnMut(usize, &mut Column)) {
        for taker in self.keys.iter_mut().flat_map(|key| &mut key.takers) {
            match taker {
                Taker::Column { column, number, .. } => act(*number, column),
                Taker::Inside(fields) => fields.each(act),
            }
        }
    }
}

/// Step over a value in doubt; the place of it is kept.
#[cold]
#[inline(never)]
fn step_over(
    column: usize,
    depth: u32,
    reader: &mut Reader,
    doubted: &mut Vec<DoubtedValue>,
) -> Vouched<()> {
    let begin = reader.position();
    reader.restore_depth(depth);
    reader.skip_value()?;
    doubted.push(DoubtedValue { column, begin, end: reader.position() });
    Ok(())
}
