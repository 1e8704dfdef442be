//! Result files of LinkTest from any source: container, layouts, and the text and tables made from them.

use pipebench::internals::outside;
use pipebench::internals::report::linktest::file;
use pipebench::internals::store::linktest::{self, Meaning};

use super::one_line;
use crate::driver::magnitude;

pub const WORDS: &[&str] = &["sion", "LKTST", "LinkTest", "END_BLOCK"];

pub fn run(input: &[u8]) -> String {
    let read = match linktest::read(input) {
        Ok(read) => read,
        // Numbers differ from file to file; the words of the error do not.
        Err(error) => {
            let text = one_line(&error, 300);
            let words = text.split_whitespace();
            let plain = words.filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
            return plain.collect::<Vec<_>>().join(" ");
        }
    };
    // The data in memory is not larger than the file, no matter what lengths it states.
    let times: usize = read
        .sets
        .iter()
        .flat_map(|set| &set.ranks)
        .map(|rank| rank.times_s.len())
        .sum();
    assert!(
        times * 8 <= input.len(),
        "{times} times of {} bytes",
        input.len()
    );
    let text = file::text(&read);
    assert!(!text.contains(|letter: char| outside::steers(letter) && letter != '\n'));
    let table = file::csv(&read).expect("figures can be written");
    let pairs: usize = read
        .sets
        .iter()
        .filter_map(|set| read.pairs(set))
        .map(|pairs| pairs.len())
        .sum();
    if let Some(table) = table {
        assert_eq!(table.lines().count(), pairs + usize::from(pairs > 0));
    }
    if read.header.version[0] == 2 {
        let again = linktest::read(linktest::write(&read, "again", 1).as_slice())
            .expect("it was read before");
        assert_eq!(again.sets.len(), read.sets.len());
    }
    let meaning: Vec<Meaning> = read.sets.iter().map(|set| read.meaning(set)).collect();
    format!(
        "{:?} {} {}",
        meaning.first(),
        magnitude(pairs),
        read.header.version[0]
    )
}
