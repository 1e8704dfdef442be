//! LinkTest's result files.

use std::path::{Path, PathBuf};

use crate::record::{Measured, Record};
use crate::store;

use super::terminal::{Terminal, complain};

/// Writes a result file of LinkTest for each iteration. Several files are numbered as in LinkTest. Returns false if one cannot be written.
pub(super) fn keep(output: &Path, record: &Record, terminal: &mut Terminal) -> bool {
    /// Alignment of chunks in the file, in bytes: the usual block size of file systems.
    const BLOCK_BYTES: u32 = 4096;
    let files = match record.measured() {
        Measured::Linktest(plan, linktest) => store::linktest::files(record, plan, linktest),
        Measured::Acceptance(..) | Measured::Latency(..) | Measured::Imb(..) => Vec::new(),
    };
    let mut written = true;
    for (number, file) in files.iter().enumerate() {
        let path = match files.len() {
            1 => output.to_owned(),
            _ => numbered(output, number),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = store::linktest::write(file, &name, BLOCK_BYTES);
        match store::write_file(&path, bytes) {
            Ok(()) => terminal.result(&format!("result {}\n", path.display())),
            Err(error) => {
                complain(&error.to_string());
                written = false;
            }
        }
    }
    written
}

/// File name of one of several iterations, numbered as in LinkTest.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}_i{number:03}.{}", extension.to_string_lossy()),
        None => format!("{stem}_i{number:03}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_iterations_are_numbered() {
        assert_eq!(
            numbered(Path::new("a/pingpong_results_bin.sion"), 7),
            Path::new("a/pingpong_results_bin_i007.sion")
        );
        assert_eq!(numbered(Path::new("links"), 0), Path::new("links_i000"));
    }
}
