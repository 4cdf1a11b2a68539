//! Generates the code of the services. A program of one service needs only `compile_protos("proto/greeter.proto")`.

fn main() -> std::io::Result<()> {
    longarm_rpc_build::compile_protos("proto/greeter.proto")
}
