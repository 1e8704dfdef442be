//! The executable for hosts: `pipebench node` and `pipebench join`, and nothing else; see `cli/node.rs`.

fn main() -> std::process::ExitCode {
    pipebench::node_main()
}
