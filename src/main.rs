//! The pipebench executable; see `cli`.

fn main() -> std::process::ExitCode {
    pipebench::main()
}
