//! Messages as they are: this crate has encoded them.

use ::tonic::Status as GrpcStatus;
use ::tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use bytes::{Buf, BufMut, Bytes};

/// The codec of messages that are bytes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = BytesCodec;
    type Decoder = BytesCodec;

    fn encoder(&mut self) -> BytesCodec {
        BytesCodec
    }

    fn decoder(&mut self) -> BytesCodec {
        BytesCodec
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = GrpcStatus;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), GrpcStatus> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = GrpcStatus;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, GrpcStatus> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
