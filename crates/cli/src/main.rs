//! The program `roformer`.

use std::process::ExitCode;

fn main() -> ExitCode {
    roformer_cli::run(std::env::args_os()).into()
}
