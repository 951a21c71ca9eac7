//! The command `memory`.

fn main() -> std::process::ExitCode {
    memory_server::main()
}
