//! Reports of link tests: LinkTest's own lines, and figures that those leave out.
//!
//! Read next: [`lines`] for what LinkTest prints, [`summary`] for the sheet, [`table`] for figures link by link.

pub mod figures;
pub mod file;
pub mod lines;
pub mod summary;
pub mod table;
