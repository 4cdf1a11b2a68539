//! The options of level `SOL_RDMA`, of `<rdma/rsocket.h>`.

/// The level of these options.
pub const SOL_RDMA: i32 = 0x10000;
/// Requests in the send queue.
pub const RDMA_SQSIZE: i32 = 0;
/// Requests in the receive queue.
pub const RDMA_RQSIZE: i32 = 1;
/// Bytes up to which data is sent inline.
pub const RDMA_INLINE: i32 = 2;
/// Buffers that the peer may map at a time.
pub const RDMA_IOMAPSIZE: i32 = 3;
/// The path, as an array of `struct ibv_path_data`.
pub const RDMA_ROUTE: i32 = 4;
