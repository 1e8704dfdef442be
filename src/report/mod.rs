//! Reports: a record in, a document out. No input or output here, no clock, and nothing that is not in the record.

pub mod csv;
pub mod figures;
pub mod header;
pub mod json;
pub mod text;
