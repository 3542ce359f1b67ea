//! The fields of a protobuf message, as they stand on the wire.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The bytes are no OTLP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The value of a field by its wire type, before it is interpreted.
#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Four([u8; 4]),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
}

impl Raw<'_> {
    /// Whether it is what a field that is not there would be.
    pub(super) fn is_zero(self) -> bool {
        match self {
            Raw::Varint(number) => number == 0,
            Raw::Four(bytes) => bytes == [0; 4],
            Raw::Eight(bytes) => bytes == [0; 8],
            Raw::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// The fields of a message with their numbers; nothing comes after one that cannot be read.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u32, Raw<'a>), Malformed> {
        let (number, wire_type) = decode_key(&mut self.rest).map_err(|_| Malformed)?;
        Ok((number, self.value(wire_type)?))
    }

    /// The next value of this type, without the key in front of it.
    pub(super) fn value(&mut self, wire_type: WireType) -> Result<Raw<'a>, Malformed> {
        match wire_type {
            WireType::Varint => self.varint().map(Raw::Varint),
            WireType::ThirtyTwoBit => self.array().map(Raw::Four),
            WireType::SixtyFourBit => self.array().map(Raw::Eight),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
                self.rest = rest;
                Ok(Raw::Bytes(bytes))
            }
            // OTLP has none
            WireType::StartGroup | WireType::EndGroup => Err(Malformed),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        decode_varint(&mut self.rest).map_err(|_| Malformed)
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
