//! What a user reads of a Rust source, and where given phrases are in a text.

/// The strings of a source, without those of its tests, and its doc comments if they are help. The rest is blank, so
/// that lines keep their numbers.
pub fn shown(source: &str, is_help: bool) -> String {
    let mut shown = String::new();
    let mut rest = without_tests(source);
    while !rest.is_empty() {
        let (length, is_string) = first_part(rest);
        let (part, after) = rest.split_at(length);
        if is_string || (is_help && part.starts_with("///")) {
            shown += &part.replace("\\n", " ");
        } else {
            let blank = |letter: char| if letter == '\n' { letter } else { ' ' };
            shown.extend(part.chars().map(blank));
        }
        rest = after;
    }
    shown
}

/// Inline tests stand at the bottom of their file. Single test functions and a `mod tests;` may stand above.
fn without_tests(source: &str) -> &str {
    const MARK: &str = "\n#[cfg(test)]\n";
    let begins_tests = |at: &usize| {
        let line = source[at + MARK.len()..].lines().next().unwrap_or_default();
        line.contains("mod ") && line.ends_with('{')
    };
    let mut marks = source.match_indices(MARK).map(|(at, _)| at);
    &source[..marks.find(begins_tests).unwrap_or(source.len())]
}

/// Length of the string, comment, character, name or other letter at the start, and whether it is a string.
fn first_part(source: &str) -> (usize, bool) {
    let end_of = |start: usize, end: &str| {
        let found = source[start..].find(end);
        found.map_or(source.len(), |at| start + at + end.len())
    };
    let name_end = source.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let (name, rest) = source.split_at(name_end.unwrap_or(source.len()));
    let quoted = rest.trim_start_matches('#');
    if ["r", "br", "cr"].contains(&name) && quoted.starts_with('"') {
        let hashes = "#".repeat(rest.len() - quoted.len());
        let inside = name.len() + hashes.len() + 1;
        return (end_of(inside, &format!("\"{hashes}")), true);
    }
    if !name.is_empty() {
        return (name.len(), false);
    }
    if source.starts_with("//") {
        return (end_of(2, "\n"), false);
    }
    if source.starts_with("/*") {
        return (end_of(2, "*/"), false);
    }
    let mut letters = source.chars();
    match (letters.next(), letters.next(), letters.next()) {
        (Some('"'), ..) => (end_of_quoted(source, '"'), true),
        (Some('\''), Some('\\'), _) | (Some('\''), _, Some('\'')) => {
            (end_of_quoted(source, '\''), false)
        }
        (letter, ..) => (letter.map_or(0, char::len_utf8), false),
    }
}

fn end_of_quoted(source: &str, quote: char) -> usize {
    let mut letters = source.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + 1;
        }
    }
    source.len()
}

/// The lines on which the phrases begin. A phrase is of whole words in lower case, and a text may wrap it.
pub fn find<'phrase>(text: &str, phrases: &[&'phrase str]) -> Vec<(usize, &'phrase str)> {
    let lines: Vec<String> = text.lines().chain([""]).map(words_of).collect();
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for (index, two) in lines.windows(2).enumerate() {
        let joined = two.join(" ");
        for phrase in phrases {
            let hit = joined.match_indices(phrase).any(|(at, _)| {
                let (before, after) = (&joined[..at], &joined[at + phrase.len()..]);
                at < two[0].len() && !before.ends_with(is_letter) && !after.starts_with(is_letter)
            });
            if hit {
                found.push((index + 1, *phrase));
            }
        }
    }
    found
}

/// The words of a line in lower case, without the marks of a comment and of a string that the next line continues.
fn words_of(line: &str) -> String {
    let line = line.trim().trim_start_matches(['/', '#', '>', '*']);
    let words: Vec<&str> = line.trim_end_matches('\\').split_whitespace().collect();
    words.join(" ").to_lowercase()
}
