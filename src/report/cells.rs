//! CSV cells that spreadsheets do not run as formulas.

/// The text of a table. A spreadsheet runs a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula, and some also split
/// cells at semicolons or tabs. So names of hosts get an apostrophe before that character, which spreadsheets do not show. Numbers stay unchanged.
pub(super) fn finish(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let written = writer.into_inner().map_err(|error| error.into_error())?;
    let harmless = |cell: &[u8]| -> Vec<u8> {
        let is_number = || std::str::from_utf8(cell).is_ok_and(|text| text.parse::<f64>().is_ok());
        let mut safe = Vec::with_capacity(cell.len());
        let mut begins = cell.len() > 1 && !is_number();
        for byte in cell {
            if begins && b"=+-@\t\r".contains(byte) {
                safe.push(b'\'');
            }
            safe.push(*byte);
            begins = b";\t".contains(byte);
        }
        safe
    };
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(&written[..]);
    let mut safe = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    for row in rows.byte_records() {
        for cell in &row? {
            safe.write_field(harmless(cell))?;
        }
        safe.write_record(None::<&[u8]>)?;
    }
    let bytes = safe.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_a_table_is_a_formula() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = [
            "=HYPERLINK(\"http://x\")",
            "+n1",
            "-n1",
            "@n1",
            "n1",
            "-",
            "-4.5",
            "1e-9",
            "",
            "a;=cmd",
        ];
        writer.write_record(names).unwrap();
        let text = finish(writer).unwrap();
        let safe = "\"'=HYPERLINK(\"\"http://x\"\")\",'+n1,'-n1,'@n1,n1,-,-4.5,1e-9,,a;'=cmd\n";
        assert_eq!(text, safe);
    }
}
