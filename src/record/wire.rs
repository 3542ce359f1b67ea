//! The wire format of protobuf: varints, and the fields of a message.

/// Returns the number of bytes of a varint.
#[inline]
pub(crate) const fn encoded_len_varint(value: u64) -> usize {
    // One byte per 7 bits, and one byte for 0: `last_bit / 7 + 1`, computed with a shift instead of a division.
    let last_bit = 63 ^ (value | 1).leading_zeros();
    ((last_bit * 9 + 73) / 64) as usize
}

#[inline]
pub(crate) fn encode_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps signed numbers to unsigned ones, so that small numbers of either sign are short on the wire.
pub(crate) fn zigzag(number: i32) -> u64 {
    u64::from((number << 1 ^ number >> 31) as u32)
}

/// Appends a length-delimited field with a one-byte tag.
pub(crate) fn encode_field(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// Inserts the length of the bytes from `start` to the end in front of them. For content whose length is not known
/// before it is written.
pub(crate) fn insert_length(start: usize, out: &mut Vec<u8>) {
    let end = out.len();
    encode_varint((end - start) as u64, out);
    let length_bytes = out.len() - end;
    out[start..].rotate_right(length_bytes);
}

/// Removes a varint from the front and returns it; `None` if it is truncated or has more than 64 bits.
#[inline]
pub(crate) fn decode_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            // The tenth byte has only one bit of a 64-bit number.
            return (index < 9 || byte < 2).then_some(value);
        }
    }
    None
}

/// The bytes are not a protobuf message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// How the value of a field is written. OTLP has no groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    SixtyFourBit = 1,
    LengthDelimited = 2,
    ThirtyTwoBit = 5,
}

/// The value of a field by its wire type, before it is interpreted.
#[cfg_attr(not(feature = "json"), allow(dead_code, reason = "JSON has every kind"))]
#[derive(Clone, Copy)]
pub(crate) enum Raw<'a> {
    Varint(u64),
    Four([u8; 4]),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
}

impl Raw<'_> {
    /// Returns whether the value is the default, which protobuf treats like an absent field.
    #[cfg(feature = "json")]
    pub(crate) fn is_zero(self) -> bool {
        match self {
            Raw::Varint(number) => number == 0,
            Raw::Four(bytes) => bytes == [0; 4],
            Raw::Eight(bytes) => bytes == [0; 8],
            Raw::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// Iterates over the fields of a message, with their numbers. Returns an error for the first malformed field, and ends.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    is_prefix: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message, is_prefix: false }
    }

    /// Iterates over the fields of a truncated message. Text, bytes or a message beyond the available bytes are cut.
    pub(crate) fn of_prefix(prefix: &'a [u8]) -> Self {
        Self { rest: prefix, is_prefix: true }
    }

    fn read(&mut self) -> Result<(u32, Raw<'a>), Malformed> {
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let wire_type = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::SixtyFourBit,
            2 => WireType::LengthDelimited,
            5 => WireType::ThirtyTwoBit,
            _ => return Err(Malformed),
        };
        match key >> 3 {
            0 => Err(Malformed),
            number => Ok((number, self.value(wire_type)?)),
        }
    }

    /// Reads the next bytes as a value of this type. If the value has a key in front, the key must already be read.
    pub(crate) fn value(&mut self, wire_type: WireType) -> Result<Raw<'a>, Malformed> {
        match wire_type {
            WireType::Varint => self.varint().map(Raw::Varint),
            WireType::ThirtyTwoBit => self.array().map(Raw::Four),
            WireType::SixtyFourBit => self.array().map(Raw::Eight),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let length = if self.is_prefix { length.min(self.rest.len()) } else { length };
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
                self.rest = rest;
                Ok(Raw::Bytes(bytes))
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        decode_varint(&mut self.rest).ok_or(Malformed)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*array)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::encoding;

    use super::*;

    proptest! {
        #[test]
        fn varints_are_those_of_protobuf(bits in any::<u64>(), shift in 0..64_u32, rest: Vec<u8>) {
            let value = bits >> shift;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            encode_varint(value, &mut ours);
            encoding::encode_varint(value, &mut theirs);
            prop_assert_eq!(&ours, &theirs);
            prop_assert_eq!(encoded_len_varint(value), ours.len());
            ours.extend(&rest);
            let mut behind = &*ours;
            prop_assert_eq!(decode_varint(&mut behind), Some(value));
            prop_assert_eq!(behind, &rest);
        }

        #[test]
        fn whatever_bytes_there_are_a_varint_is_read_as_protobuf_reads_it(
            bytes in proptest::collection::vec(prop_oneof![0x80..=0xff_u8, any::<u8>(), 0..3_u8], 0..12),
        ) {
            let (mut ours, mut theirs) = (&*bytes, &*bytes);
            prop_assert_eq!(decode_varint(&mut ours), encoding::decode_varint(&mut theirs).ok());
        }
    }
}
