//! Compiles the .proto files in pure Rust: no system protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/strata/v1/work.proto", "proto/strata/v1/jobs.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
