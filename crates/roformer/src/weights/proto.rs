//! Protocol buffers, as far as a checkpoint's index needs them: the fields of a message, one after the other.

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number of variable length. A negative one has its high bits set.
    Number(u64),
    /// Four bytes.
    Fixed(u32),
    /// A message within the message, or text.
    Bytes(&'a [u8]),
    /// Eight bytes, which nothing here asks for.
    Other,
}

impl<'a> Value<'a> {
    /// The number, if it is one.
    pub(super) fn number(self) -> Option<u64> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    /// The bytes, if it is some.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// Takes the number of variable length that `bytes` begin with: seven bits a byte, the low ones first.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if place == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * place);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes the first bytes.
fn take<'a>(bytes: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Calls `each` with the number and the value of every field of a message. Nothing, if the message is broken or `each` gives
/// nothing.
pub(super) fn fields<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let key = take_number(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(take_number(&mut bytes)?),
            1 => take(&mut bytes, 8).map(|_| Value::Other)?,
            2 => {
                let len = take_number(&mut bytes)?;
                Value::Bytes(take(&mut bytes, len)?)
            }
            5 => Value::Fixed(u32::from_le_bytes(*take(&mut bytes, 4)?.first_chunk()?)),
            // Groups, which were given up before there were checkpoints.
            _ => return None,
        };
        each(key >> 3, value)?;
    }
    Some(())
}
