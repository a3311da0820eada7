//! Reads a pickle and runs nothing.
//!
//! A pickle is a program for a small stack machine, and Python's own reader lets it call anything. This one knows the values
//! that a file of weights is made of: numbers, text, lists, dictionaries, and tensors as `torch._utils._rebuild_tensor_v2`
//! describes them. Whatever else a pickle names is an error that says its name.
//!
//! Objects lie in one list and refer to each other by number. So nothing here is recursive, however deep a pickle nests, and
//! an object that is named a million times is held once.

use super::error::{Error, Result, brief};
use super::tensor::Dtype;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

// A model has some ten objects and sixty steps per tensor; the largest have 100,000 tensors.
const MOST_STEPS: usize = 1 << 24;
const MOST_OBJECTS: usize = 1 << 21;
const MOST_MEMO: usize = 1 << 22;
// Python fills lists and dictionaries a thousand at a time, and nests a state dict less than ten deep.
const DEEPEST_STACK: usize = 1 << 16;
const MOST_MARKS: usize = 1 << 10;
const LONGEST_TEXT: usize = 1 << 20;

/// A value on the stack.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// A value that says nothing about tensors, such as a learning rate. Read past, not kept.
    Other,
    Global(Global),
    Object(usize),
}

/// The names that a pickle may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildParameter,
    Storage(Dtype),
}

/// A value that others refer to.
#[derive(Debug)]
enum Object<'a> {
    Text(Cow<'a, str>),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Storage(Storage),
    Tensor(View),
}

/// The numbers that one or more tensors are views of, kept outside the pickle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) dtype: Dtype,
    /// Its name in the file.
    pub(super) key: String,
    /// Its length in elements.
    pub(super) len: u64,
    /// The part of it that is meant: where it begins and how long it is. Only PyTorch before 0.4 had such parts.
    pub(super) part: (u64, u64),
}

/// A tensor: a view of a storage.
#[derive(Debug)]
pub(super) struct View {
    /// Which of the objects is the storage.
    storage: usize,
    pub(super) offset: u64,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// A pickle that was read.
pub(super) struct Pickle<'a> {
    objects: Vec<Object<'a>>,
    /// What it is a pickle of.
    pub(super) root: Value,
    /// How many bytes it took.
    pub(super) len: usize,
}

impl Pickle<'_> {
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        match self.object(value)? {
            Object::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.object(value)? {
            Object::Dict(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn tensor(&self, value: Value) -> Option<(&View, &Storage)> {
        let Object::Tensor(view) = self.object(value)? else {
            return None;
        };
        match self.objects.get(view.storage)? {
            Object::Storage(storage) => Some((view, storage)),
            _ => None,
        }
    }

    /// Every storage that the pickle names.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.objects.iter().filter_map(|object| match object {
            Object::Storage(storage) => Some(storage),
            _ => None,
        })
    }

    fn object(&self, value: Value) -> Option<&Object<'_>> {
        match value {
            Value::Object(at) => self.objects.get(at),
            _ => None,
        }
    }
}

/// Reads the pickle that `bytes` begin with.
pub(super) fn read<'a>(bytes: &'a [u8], path: &Path) -> Result<Pickle<'a>> {
    let machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        objects: Vec::new(),
    };
    machine.run().map_err(|fault| match fault {
        Fault::Forbidden(global) => Error::Forbidden { path: path.to_owned(), global },
        Fault::Broken(found) => {
            Error::format(path, format!("a pickle {found}"), "the state_dict of a model; download it again")
        }
    })
}

/// Why a pickle is not read.
enum Fault {
    Forbidden(String),
    Broken(String),
}

fn broken(found: impl Into<String>) -> Fault {
    Fault::Broken(found.into())
}

type Step<T> = std::result::Result<T, Fault>;

/// The stack machine.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    /// Where in the stack each open list, tuple or dictionary begins.
    marks: Vec<usize>,
    memo: HashMap<u64, Value>,
    objects: Vec<Object<'a>>,
}

impl<'a> Machine<'a> {
    fn run(mut self) -> Step<Pickle<'a>> {
        for _ in 0..MOST_STEPS {
            let opcode = self.byte()?;
            if opcode == b'.' {
                let root = self.pop()?;
                return Ok(Pickle { objects: self.objects, root, len: self.at });
            }
            self.step(opcode)?;
        }
        Err(broken(format!("of more than {MOST_STEPS} steps")))
    }

    /// One instruction. The comments are Python's names for them, from `pickletools`.
    fn step(&mut self, opcode: u8) -> Step<()> {
        match opcode {
            0x80 => {
                // PROTO: all versions to 5 are read alike.
                let version = self.byte()?;
                if version > 5 {
                    return Err(broken(format!("of protocol {version}, later than 5")));
                }
                Ok(())
            }
            0x95 => self.take(8).map(drop), // FRAME: a hint for readers that fetch piece by piece
            b'(' => {
                // MARK
                if self.marks.len() >= MOST_MARKS {
                    return Err(broken(format!("nested deeper than {MOST_MARKS}")));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),      // POP
            b'1' => self.pop_mark().map(drop), // POP_MARK
            b'2' => {
                // DUP
                let top = self.pop()?;
                self.push(top)?;
                self.push(top)
            }

            b'N' => self.push(Value::None),        // NONE
            0x88 => self.push(Value::Bool(true)),  // NEWTRUE
            0x89 => self.push(Value::Bool(false)), // NEWFALSE
            b'K' => self.push_int(1),              // BININT1
            b'M' => self.push_int(2),              // BININT2
            b'J' => {
                // BININT
                let number = self.number(4)?;
                self.push(Value::Int(i64::from(number as u32 as i32)))
            }
            b'I' | b'L' => {
                // INT, LONG: decimal; "00" and "01" are how protocol 0 writes false and true
                let line = self.line()?;
                self.push(match line {
                    "00" => Value::Bool(false),
                    "01" => Value::Bool(true),
                    _ => line.trim_end_matches('L').parse().map_or(Value::Other, Value::Int),
                })
            }
            0x8a => {
                // LONG1
                let len = self.number(1)?;
                self.push_long(len)
            }
            0x8b => {
                // LONG4
                let len = self.number(4)?;
                self.push_long(len)
            }
            b'F' => {
                // FLOAT
                self.line()?;
                self.push(Value::Other)
            }
            b'G' => {
                // BINFLOAT
                self.take(8)?;
                self.push(Value::Other)
            }

            b'U' | 0x8c => self.push_text(1), // SHORT_BINSTRING, SHORT_BINUNICODE
            b'T' | b'X' => self.push_text(4), // BINSTRING, BINUNICODE
            0x8d => self.push_text(8),        // BINUNICODE8
            b'V' => {
                // UNICODE
                let line = self.line()?;
                self.push_line(line)
            }
            b'S' => {
                // STRING: in quotes
                let line = self.line()?;
                let quote = |mark| line.strip_prefix(mark).and_then(|line| line.strip_suffix(mark));
                let line =
                    quote('\'').or_else(|| quote('"')).ok_or_else(|| broken("with text out of quotes"))?;
                self.push_line(line)
            }
            b'C' => self.skip_bytes(1),        // SHORT_BINBYTES
            b'B' => self.skip_bytes(4),        // BINBYTES
            0x8e | 0x96 => self.skip_bytes(8), // BINBYTES8, BYTEARRAY8

            b')' => self.push_object(Object::Tuple(Vec::new())), // EMPTY_TUPLE
            0x85..=0x87 => {
                // TUPLE1, TUPLE2, TUPLE3
                let items = self.pop_many(usize::from(opcode - 0x84))?;
                self.push_object(Object::Tuple(items))
            }
            b't' => {
                // TUPLE
                let items = self.pop_mark()?;
                self.push_object(Object::Tuple(items))
            }
            b']' => self.push_object(Object::List(Vec::new())), // EMPTY_LIST
            b'l' => {
                // LIST
                let items = self.pop_mark()?;
                self.push_object(Object::List(items))
            }
            b'a' => {
                // APPEND
                let item = self.pop()?;
                self.append(vec![item])
            }
            b'e' => {
                // APPENDS
                let items = self.pop_mark()?;
                self.append(items)
            }
            b'}' => self.push_object(Object::Dict(Vec::new())), // EMPTY_DICT
            b'd' => {
                // DICT
                let items = self.pop_mark()?;
                self.push_object(Object::Dict(Vec::new()))?;
                self.insert(items)
            }
            b's' => {
                // SETITEM
                let items = self.pop_many(2)?;
                self.insert(items)
            }
            b'u' => {
                // SETITEMS
                let items = self.pop_mark()?;
                self.insert(items)
            }

            b'p' | b'g' => {
                // PUT, GET
                let line = self.line()?;
                let key = line.parse().map_err(|_| broken("that remembers a value under no number"))?;
                if opcode == b'p' { self.put(key) } else { self.get(key) }
            }
            b'q' | b'r' => {
                // BINPUT, LONG_BINPUT
                let key = self.number(if opcode == b'q' { 1 } else { 4 })?;
                self.put(key)
            }
            b'h' | b'j' => {
                // BINGET, LONG_BINGET
                let key = self.number(if opcode == b'h' { 1 } else { 4 })?;
                self.get(key)
            }
            0x94 => self.put(self.memo.len() as u64), // MEMOIZE

            b'c' => {
                // GLOBAL
                let (module, name) = (self.line()?, self.line()?);
                let global = global(module, name)?;
                self.push(Value::Global(global))
            }
            0x93 => {
                // STACK_GLOBAL
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (self.text(module), self.text(name)) {
                    (Some(module), Some(name)) => global(module, name)?,
                    _ => return Err(broken("that asks for something without a name")),
                };
                self.push(Value::Global(global))
            }
            b'R' | 0x81 => {
                // REDUCE, NEWOBJ: a call
                let (arguments, callee) = (self.pop()?, self.pop()?);
                let result = self.call(callee, arguments)?;
                self.push(result)
            }
            b'b' => {
                // BUILD: sets attributes. A state dict carries the versions of its modules this way.
                self.pop()?;
                match self.stack.last().and_then(|&top| self.object(top)) {
                    Some(Object::Dict(_)) => Ok(()),
                    _ => Err(broken("that sets attributes of something other than a dictionary")),
                }
            }
            b'i' => {
                // INST: an old way to make an object
                let (module, name) = (self.line()?, self.line()?);
                Err(forbidden(module, name))
            }
            b'Q' => {
                // BINPERSID: something kept outside the pickle
                let id = self.pop()?;
                let storage = self.storage(id)?;
                self.push_object(Object::Storage(storage))
            }

            _ => Err(broken(format!("with the instruction {opcode:#04x}, which no file of weights needs"))),
        }
    }

    // What is read from the bytes.

    fn take(&mut self, len: usize) -> Step<&'a [u8]> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes =
            bytes.ok_or_else(|| broken(format!("that ends within its {len} bytes at byte {}", self.at)))?;
        self.at += len;
        Ok(bytes)
    }

    fn byte(&mut self) -> Step<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number without sign in `len` bytes, the low byte first; `len` is at most 8.
    fn number(&mut self, len: usize) -> Step<u64> {
        Ok(self.take(len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn line(&mut self) -> Step<&'a str> {
        let rest = &self.bytes[self.at..];
        let rest = &rest[..rest.len().min(LONGEST_TEXT)];
        let len =
            rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| broken("with a line without end"))?;
        let line = utf8(self.take(len)?)?;
        self.at += 1;
        Ok(line)
    }

    /// A length in `width` bytes, then as many bytes.
    fn counted(&mut self, width: usize) -> Step<&'a [u8]> {
        let len = self.number(width)?;
        let len = usize::try_from(len).map_err(|_| broken(format!("with {len} bytes in one piece")))?;
        self.take(len)
    }

    // What is put on the stack.

    fn push(&mut self, value: Value) -> Step<()> {
        if self.stack.len() >= DEEPEST_STACK {
            return Err(broken(format!("that stacks more than {DEEPEST_STACK} values")));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_object(&mut self, object: Object<'a>) -> Step<()> {
        if self.objects.len() >= MOST_OBJECTS {
            return Err(broken(format!("of more than {MOST_OBJECTS} objects")));
        }
        self.objects.push(object);
        self.push(Value::Object(self.objects.len() - 1))
    }

    fn push_int(&mut self, width: usize) -> Step<()> {
        let number = self.number(width)?;
        self.push(Value::Int(number as i64))
    }

    /// A number with sign in `len` bytes. None that matters here is longer than eight.
    fn push_long(&mut self, len: u64) -> Step<()> {
        let bytes = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
        let value = if bytes.len() > 8 {
            Value::Other
        } else {
            let empty = if negative { -1 } else { 0 };
            Value::Int(bytes.iter().rev().fold(empty, |number: i64, &byte| number << 8 | i64::from(byte)))
        };
        self.push(value)
    }

    fn push_text(&mut self, width: usize) -> Step<()> {
        let bytes = self.counted(width)?;
        if bytes.len() > LONGEST_TEXT {
            return Err(broken(format!("with a text of {} bytes, more than {LONGEST_TEXT}", bytes.len())));
        }
        self.push_object(Object::Text(Cow::Borrowed(utf8(bytes)?)))
    }

    /// A line of text. Names of tensors need no escapes, and one that has them is refused rather than read wrongly.
    fn push_line(&mut self, line: &'a str) -> Step<()> {
        if line.contains('\\') {
            return Err(broken("with escapes in a text"));
        }
        self.push_object(Object::Text(Cow::Borrowed(line)))
    }

    fn skip_bytes(&mut self, width: usize) -> Step<()> {
        self.counted(width)?;
        self.push(Value::Other)
    }

    // What is taken from the stack. What lies below the last mark is out of reach, as in Python.

    fn pop(&mut self) -> Step<Value> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.pop() {
            Some(value) if self.stack.len() >= floor => Ok(value),
            _ => Err(broken("that takes more values than it made")),
        }
    }

    fn pop_many(&mut self, count: usize) -> Step<Vec<Value>> {
        let mut items: Vec<_> = (0..count).map(|_| self.pop()).collect::<Step<_>>()?;
        items.reverse();
        Ok(items)
    }

    fn pop_mark(&mut self) -> Step<Vec<Value>> {
        let mark = self.marks.pop().ok_or_else(|| broken("that closes what it never opened"))?;
        Ok(self.stack.split_off(mark))
    }

    fn put(&mut self, key: u64) -> Step<()> {
        if self.memo.len() >= MOST_MEMO {
            return Err(broken(format!("that remembers more than {MOST_MEMO} values")));
        }
        let top = self.pop()?;
        self.memo.insert(key, top);
        self.push(top)
    }

    fn get(&mut self, key: u64) -> Step<()> {
        let value = self.memo.get(&key).copied();
        self.push(value.ok_or_else(|| broken(format!("that recalls value {key}, which it never had")))?)
    }

    // Objects.

    fn object(&self, value: Value) -> Option<&Object<'a>> {
        match value {
            Value::Object(at) => self.objects.get(at),
            _ => None,
        }
    }

    fn text(&self, value: Value) -> Option<&str> {
        match self.object(value)? {
            Object::Text(text) => Some(text),
            _ => None,
        }
    }

    fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::Tuple(items) => Some(items),
            _ => None,
        }
    }

    fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::Tuple(items) | Object::List(items) => Some(items),
            _ => None,
        }
    }

    /// The object on top of the stack, to add to it.
    fn top(&mut self) -> Option<&mut Object<'a>> {
        match self.stack.last() {
            Some(&Value::Object(at)) => self.objects.get_mut(at),
            _ => None,
        }
    }

    fn append(&mut self, items: Vec<Value>) -> Step<()> {
        match self.top() {
            Some(Object::List(list)) => list.extend(items),
            _ => return Err(broken("that adds to a list where there is none")),
        }
        Ok(())
    }

    fn insert(&mut self, items: Vec<Value>) -> Step<()> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.top() {
            Some(Object::Dict(dict)) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|&[key, value]| (key, value)))
            }
            _ => return Err(broken("that adds to a dictionary where there is none")),
        }
        Ok(())
    }

    // Calls: the four that make tensors, worked out here.

    fn call(&mut self, callee: Value, arguments: Value) -> Step<Value> {
        let Value::Global(callee) = callee else {
            return Err(broken("that calls something that is not a function"));
        };
        let wrong = || broken(format!("that calls {callee:?} with arguments it does not take"));
        let arguments = self.tuple(arguments).ok_or_else(wrong)?;
        let made = match (callee, arguments) {
            (Global::OrderedDict, []) => Object::Dict(Vec::new()),
            // As Python 2 wrote it: a list of pairs.
            (Global::OrderedDict, &[pairs]) => {
                let pair = |&pair: &Value| match self.sequence(pair) {
                    Some(&[key, value]) => Some((key, value)),
                    _ => None,
                };
                let pairs = self.sequence(pairs).and_then(|pairs| pairs.iter().map(pair).collect());
                Object::Dict(pairs.ok_or_else(wrong)?)
            }
            (Global::Size, &[sizes]) => Object::Tuple(self.sequence(sizes).ok_or_else(wrong)?.to_vec()),
            // Data, whether it needs a gradient, hooks.
            (Global::RebuildParameter, &[data, _, _]) if self.is_tensor(data) => return Ok(data),
            // Storage, offset, shape, strides, whether it needs a gradient, hooks, and lately metadata.
            (
                Global::RebuildTensor,
                &[storage, offset, shape, strides, _, _] | &[storage, offset, shape, strides, _, _, _],
            ) => {
                let (Value::Object(at), Some(Object::Storage(_))) = (storage, self.object(storage)) else {
                    return Err(wrong());
                };
                let offset = unsigned(offset).ok_or_else(wrong)?;
                let shape = self.sizes(shape).ok_or_else(wrong)?;
                let strides = self.sizes(strides).ok_or_else(wrong)?;
                Object::Tensor(View { storage: at, offset, shape, strides })
            }
            _ => return Err(wrong()),
        };
        self.push_object(made)?;
        self.pop()
    }

    fn is_tensor(&self, value: Value) -> bool {
        matches!(self.object(value), Some(Object::Tensor(_)))
    }

    fn sizes(&self, value: Value) -> Option<Vec<usize>> {
        self.tuple(value)?.iter().map(|&size| usize::try_from(unsigned(size)?).ok()).collect()
    }

    /// What `('storage', type, key, location, length)` names; PyTorch before 1.6 adds the part that is meant, or none.
    fn storage(&self, id: Value) -> Step<Storage> {
        let wrong = || broken("that refers to something outside it which is not a storage");
        let (&[kind, Value::Global(Global::Storage(dtype)), key, _location, len], part) =
            self.tuple(id).and_then(|id| id.split_first_chunk::<5>()).ok_or_else(wrong)?
        else {
            return Err(wrong());
        };
        let (Some("storage"), Some(key), Some(len)) = (self.text(kind), self.text(key), unsigned(len)) else {
            return Err(wrong());
        };
        let part = match *part {
            [] | [Value::None] => Some((0, len)),
            [part] => match self.tuple(part) {
                Some(&[_key, start, len]) => unsigned(start).zip(unsigned(len)),
                _ => None,
            },
            _ => None,
        };
        let part = part.filter(|(start, part)| start.checked_add(*part).is_some_and(|end| end <= len));
        Ok(Storage { dtype, key: key.to_owned(), len, part: part.ok_or_else(wrong)? })
    }
}

fn unsigned(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn utf8(bytes: &[u8]) -> Step<&str> {
    str::from_utf8(bytes).map_err(|_| broken("with text that is not UTF-8"))
}

fn forbidden(module: &str, name: &str) -> Fault {
    Fault::Forbidden(format!("{}.{}", brief(module), brief(name)))
}

/// The names that are known. All others are refused before anything could use them.
fn global(module: &str, name: &str) -> Step<Global> {
    Ok(match (module, name) {
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("torch", "Size") => Global::Size,
        ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
        ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
        ("torch", "DoubleStorage") => Global::Storage(Dtype::F64),
        ("torch", "FloatStorage") => Global::Storage(Dtype::F32),
        ("torch", "HalfStorage") => Global::Storage(Dtype::F16),
        ("torch", "BFloat16Storage") => Global::Storage(Dtype::BF16),
        ("torch", "LongStorage") => Global::Storage(Dtype::I64),
        ("torch", "IntStorage") => Global::Storage(Dtype::I32),
        ("torch", "ShortStorage") => Global::Storage(Dtype::I16),
        ("torch", "CharStorage") => Global::Storage(Dtype::I8),
        ("torch", "ByteStorage") => Global::Storage(Dtype::U8),
        ("torch", "BoolStorage") => Global::Storage(Dtype::Bool),
        _ => return Err(forbidden(module, name)),
    })
}
