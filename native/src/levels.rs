//! The columns of a Parquet schema, and the levels and present values of each.

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::given::{Given, Kind};
use crate::scan::{Doubt, Vouched};
use crate::thrift::{Reader, STRUCT};

const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;

/// An element of the schema as its file stores it.
#[derive(Default)]
struct Element {
    physical: Option<i64>,
    width: usize,
    repetition: i64,
    name: Vec<u8>,
    children: usize,
}

/// A column as Parquet stores it: one of a simple type.
pub struct Leaf {
    pub physical: i64,
    /// Bytes of a value of a fixed number of bytes.
    pub width: usize,
    pub path: Vec<Vec<u8>>,
    pub most_defined: u8,
    pub most_repeated: u8,
}

/// A column as Arrow has it, or what lies inside one. A list or a map says in `repeated` at which
/// level its values repeat.
enum Node {
    Leaf { number: usize, optional: bool },
    Struct { optional: bool, children: Vec<Node> },
    Repeated { optional: bool, repeated: u8, children: Vec<Node> },
}

/// A table's columns.
pub struct Tree {
    columns: Vec<Node>,
    pub leaves: Vec<Leaf>,
}

/// Levels of one leaf, and which of its values are present.
#[derive(Default)]
pub struct Levels {
    pub defined: Vec<u8>,
    pub repeated: Vec<u8>,
    pub present: Vec<u32>,
}

impl Tree {
    /// The columns of a schema: the items of its list follow.
    pub fn read(reader: &mut Reader) -> Vouched<Self> {
        let (kind, length) = reader.list()?;
        if kind != STRUCT {
            return Err(Doubt);
        }
        let elements = (0..length).map(|_| element(reader)).collect::<Vouched<Vec<_>>>()?;
        let mut rest = elements.into_iter().peekable();
        let root = rest.next().ok_or(Doubt)?;
        let mut leaves = vec![];
        let columns = (0..root.children)
            .map(|_| Node::read(&mut rest, &mut leaves, &[], 0, 0))
            .collect::<Vouched<Vec<_>>>()?;
        Ok(Self { columns, leaves })
    }

    /// Levels of all leaves, for rows that were handed over.
    ///
    /// `arrays` gets each leaf's own array. The error names a null where there may be none, or a
    /// column that the schema has in another shape.
    pub fn shred<'g, 'a>(
        &self,
        rows: &'g Given<'a>,
        arrays: &mut Vec<&'g Given<'a>>,
    ) -> Result<Vec<Levels>, String> {
        if rows.children.len() != self.columns.len() {
            return Err("columns are others than those of the file".to_owned());
        }
        let mut found: Vec<Levels> = self.leaves.iter().map(|_| Levels::default()).collect();
        for (node, column) in self.columns.iter().zip(&rows.children) {
            node.collect(column, arrays)?;
            if let (Node::Leaf { number, optional }, true) = (node, column.all_valid()) {
                let own = &mut found[*number];
                own.defined = vec![1; if *optional { rows.length } else { 0 }];
                own.present = (0..rows.length as u32).collect();
                continue;
            }
            let mut walk = Walk { leaves: &self.leaves, found: &mut found };
            for row in 0..rows.length {
                walk.value(node, column, row, 0, 0)?;
            }
        }
        Ok(found)
    }
}

fn element(reader: &mut Reader) -> Vouched<Element> {
    let mut found = Element::default();
    reader.fields(|reader, number, kind| {
        match number {
            1 => found.physical = Some(reader.number()?),
            2 => found.width = reader.number()? as usize,
            3 => found.repetition = reader.number()?,
            4 => found.name = reader.text()?.to_vec(),
            5 => found.children = reader.number()? as usize,
            _ => reader.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(found)
}

impl Node {
    fn read(
        rest: &mut Peekable<IntoIter<Element>>,
        leaves: &mut Vec<Leaf>,
        above: &[Vec<u8>],
        defined: u8,
        repeated: u8,
    ) -> Vouched<Self> {
        let own = rest.next().ok_or(Doubt)?;
        let optional = own.repetition == OPTIONAL;
        let mut defined = defined.checked_add(u8::from(optional)).ok_or(Doubt)?;
        let mut path = [above, &[own.name]].concat();
        if let Some(physical) = own.physical {
            let number = leaves.len();
            let (width, most_defined, most_repeated) = (own.width, defined, repeated);
            leaves.push(Leaf { physical, width, path, most_defined, most_repeated });
            return Ok(Self::Leaf { number, optional });
        }
        let group = rest.next_if(|first| first.repetition == REPEATED);
        let (is_repeated, mut repeated, mut count) = (group.is_some(), repeated, own.children);
        if let Some(group) = group {
            path.push(group.name);
            count = group.children;
            defined = defined.checked_add(1).ok_or(Doubt)?;
            repeated = repeated.checked_add(1).ok_or(Doubt)?;
        }
        let children = (0..count)
            .map(|_| Self::read(rest, leaves, &path, defined, repeated))
            .collect::<Vouched<_>>()?;
        Ok(match is_repeated {
            true => Self::Repeated { optional, repeated, children },
            false => Self::Struct { optional, children },
        })
    }

    /// The arrays of all leaves, in their order.
    fn collect<'g, 'a>(
        &self,
        given: &'g Given<'a>,
        arrays: &mut Vec<&'g Given<'a>>,
    ) -> Result<(), String> {
        let below = match (self, given.kind) {
            (Self::Leaf { .. }, Kind::List | Kind::LongList | Kind::Map | Kind::Struct) => None,
            (Self::Leaf { .. }, _) => {
                arrays.push(given);
                return Ok(());
            }
            (Self::Struct { children, .. }, Kind::Struct)
            | (Self::Repeated { children, .. }, Kind::List | Kind::LongList) => {
                Some((children, &given.children))
            }
            (Self::Repeated { children, .. }, Kind::Map) => {
                given.children.first().map(|entries| (children, &entries.children))
            }
            _ => None,
        };
        match below {
            Some((nodes, given)) if nodes.len() == given.len() => {
                nodes.iter().zip(given).try_for_each(|(node, given)| node.collect(given, arrays))
            }
            _ => Err(format!("{:?} is not as the file has it", given.kind)),
        }
    }
}

struct Walk<'w> {
    leaves: &'w [Leaf],
    found: &'w mut [Levels],
}

impl Walk<'_> {
    fn push(&mut self, number: usize, defined: u8, repeated: u8) {
        let leaf = &self.leaves[number];
        if leaf.most_defined > 0 {
            self.found[number].defined.push(defined);
        }
        if leaf.most_repeated > 0 {
            self.found[number].repeated.push(repeated);
        }
    }

    /// A value, or its absence, of all leaves below a node.
    fn value(
        &mut self,
        node: &Node,
        given: &Given,
        at: usize,
        defined: u8,
        repeated: u8,
    ) -> Result<(), String> {
        let (Node::Leaf { optional, .. }
        | Node::Struct { optional, .. }
        | Node::Repeated { optional, .. }) = node;
        if !given.valid(at) {
            if !optional {
                return Err("a column without nulls has one".to_owned());
            }
            self.absent(node, defined, repeated);
            return Ok(());
        }
        let defined = defined + u8::from(*optional);
        match node {
            Node::Leaf { number, .. } => {
                self.push(*number, defined, repeated);
                self.found[*number].present.push(at as u32);
            }
            Node::Struct { children, .. } => {
                let (below, _) = given.bounds(at);
                for (child, given) in children.iter().zip(&given.children) {
                    self.value(child, given, below, defined, repeated)?;
                }
            }
            Node::Repeated { children, repeated: own, .. } => {
                let (begin, end) = given.bounds(at);
                if begin == end {
                    self.absent(node, defined, repeated);
                }
                for item in begin..end {
                    let repeated = if item == begin { repeated } else { *own };
                    if given.kind == Kind::Map {
                        let entries = &given.children[0];
                        let (below, _) = entries.bounds(item);
                        for (child, given) in children.iter().zip(&entries.children) {
                            self.value(child, given, below, defined + 1, repeated)?;
                        }
                    } else {
                        self.value(&children[0], &given.children[0], item, defined + 1, repeated)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Every leaf below a node ends at this level.
    fn absent(&mut self, node: &Node, defined: u8, repeated: u8) {
        match node {
            Node::Leaf { number, .. } => self.push(*number, defined, repeated),
            Node::Struct { children, .. } | Node::Repeated { children, .. } => {
                children.iter().for_each(|child| self.absent(child, defined, repeated));
            }
        }
    }
}
