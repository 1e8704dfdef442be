//! Text from outside: from hosts, files, other users' processes. It must neither steer a terminal nor fill the memory, so this module
//! cleans and weighs it before it parses anything. This is the only place that parses JSON; `tests/rules.rs` enforces that.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error};

use crate::units::show_bytes;

/// Most memory that the values of a JSON text may need, in bytes, by the estimate of [`Weight`].
pub const MOST_BYTES: u64 = 160 << 20;

/// True if a character steers a terminal or changes how the text beside it is read: control characters (C0, DEL and C1), controls
/// of bidirectional text, and line separators.
pub fn steers(letter: char) -> bool {
    launcher::steers(letter)
}

/// Replaces each character that steers with a space.
pub fn clean(text: &str) -> Cow<'_, str> {
    match text.contains(steers) {
        true => Cow::Owned(text.replace(steers, " ")),
        false => Cow::Borrowed(text),
    }
}

/// Parses a value from JSON. Neither its strings nor an error steer a terminal. Bytes that are not UTF-8 are an error.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    read_but(json, &[])
}

/// Parses as [`read`] does, but strings with the keys `lines` keep their line ends.
pub fn read_but<T: DeserializeOwned>(json: &[u8], lines: &[&str]) -> serde_json::Result<T> {
    match std::str::from_utf8(json) {
        Ok(text) => Json::new(Cow::Borrowed(text), lines)?.read(),
        // The parser does not check text that it skips, so without this error the rest would be read uncleaned.
        Err(error) => {
            let at = error.valid_up_to() + 1;
            Err(Error::custom(format!("byte {at} is not UTF-8")))
        }
    }
}

/// JSON text that steers no terminal and whose values fit into memory.
pub struct Json<'a> {
    text: Cow<'a, str>,
    needs_bytes: u64,
}

impl<'a> Json<'a> {
    /// Cleans a text. Strings with the keys `lines` keep their line ends. Fails if its values need more than [`MOST_BYTES`], or if a number is so
    /// large that figures made of it would be none.
    pub fn new(text: Cow<'a, str>, lines: &[&str]) -> serde_json::Result<Self> {
        let weight = Weight::of(&text);
        if let Some(number) = weight.too_large {
            return Err(Error::custom(format!("{number} is too large a number")));
        }
        let needs_bytes = weight.needs_bytes;
        let cleaned = match weight.is_plain {
            true => None,
            false => clean_json(&text, lines),
        };
        let text = cleaned.map_or(text, Cow::Owned);
        let json = Self { text, needs_bytes };
        json.fits(MOST_BYTES).map(|()| json)
    }

    /// Fails if the values of the text need more memory.
    pub fn fits(&self, most_bytes: u64) -> serde_json::Result<()> {
        let limit = show_bytes(most_bytes);
        let too_much = || Error::custom(format!("its values need more than {limit} of memory"));
        (self.needs_bytes <= most_bytes)
            .then_some(())
            .ok_or_else(too_much)
    }

    /// Parses a value.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.text)
    }
}

/// What the values of a JSON text are, before they are parsed.
pub struct Weight<'a> {
    /// Upper estimate of the memory that they need, in bytes. Short values decide: `"",` has three bytes in a text and 24 in memory, `null,` can
    /// stand for a large structure, and an object can leave out most of its fields. Text of a string counts several times because reports repeat
    /// it. A record of 64 MiB needs 120 to 150 MiB.
    pub needs_bytes: u64,
    /// A number above 1e100: sums and squares of smaller ones are still finite, and JSON has no others.
    too_large: Option<&'a str>,
    /// It has visible letters of ASCII and spaces only, and no escape: nothing in it steers.
    is_plain: bool,
}

impl<'a> Weight<'a> {
    /// Weighs a text in one pass: many hosts send much of it.
    pub fn of(json: &'a str) -> Self {
        const VALUE: u64 = 64;
        const OBJECT: u64 = 128;
        const NULL: u64 = 192;
        const LETTER: u64 = 10;
        const MOST: f64 = 1e100;
        const MOST_DIGITS: usize = 100;
        let is_of_number =
            |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let is_visible = |byte: u8| (b' '..=b'~').contains(&byte);
        let bytes = json.as_bytes();
        let length_of = |at: usize| bytes[at..].iter().take_while(|byte| is_of_number(byte));
        let (mut needs_bytes, mut too_large, mut is_plain) = (VALUE, None, true);
        // Memory for the last string, which needs none if it was a key: a colon follows then.
        let mut text = 0;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    text = 0;
                    while let Some(&letter) = bytes.get(at).filter(|byte| **byte != b'"') {
                        let is_escape = letter == b'\\';
                        at += if is_escape { 2 } else { 1 };
                        is_plain &= is_visible(letter) && !is_escape;
                        text += LETTER;
                    }
                    at += 1;
                    needs_bytes += text;
                }
                b':' => needs_bytes -= std::mem::take(&mut text),
                b'{' => needs_bytes += OBJECT,
                b',' | b'[' => needs_bytes += VALUE,
                b'n' => needs_bytes += NULL,
                b'-' | b'0'..=b'9' => {
                    let end = at + length_of(at).count();
                    let number = &json[at - 1..end];
                    let is_short = number.len() <= MOST_DIGITS && !number.contains(['e', 'E']);
                    if !is_short && number.parse::<f64>().is_ok_and(|value| value.abs() > MOST) {
                        too_large = Some(&number[..number.len().min(MOST_DIGITS)]);
                    }
                    at = end;
                }
                _ => is_plain &= is_visible(byte),
            }
        }
        Self {
            needs_bytes,
            too_large,
            is_plain,
        }
    }
}

/// Replaces characters that steer with spaces in the strings of a JSON text, whether they are escaped or not.
/// `None` if there are none.
fn clean_json(json: &str, lines: &[&str]) -> Option<String> {
    let escaped = ["\\u", "\\n", "\\r", "\\t", "\\b", "\\f"];
    let raw = |letter: char| steers(letter) && !letter.is_ascii_whitespace();
    if !json.contains(raw) && !escaped.iter().any(|escape| json.contains(escape)) {
        return None;
    }
    let mut cleaned = String::with_capacity(json.len());
    let mut letters = json.chars();
    let mut inside = false;
    // Start of the last string, and true if the current string keeps its line ends.
    let (mut began, mut keeps) = (0, false);
    while let Some(letter) = letters.next() {
        match letter {
            '"' if !inside => {
                inside = true;
                keeps = lines.iter().any(|key| is_value_of(&cleaned, began, key));
                began = cleaned.len() + 1;
                cleaned.push('"');
            }
            '"' => {
                inside = false;
                cleaned.push('"');
            }
            '\\' if inside => {
                let escape = letters.next().unwrap_or(' ');
                let rest = letters.as_str();
                let code = rest.get(..4).filter(|_| escape == 'u');
                let code = code.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let meant = match escape {
                    'n' => Some('\n'),
                    'r' | 't' | 'b' | 'f' => Some('\t'),
                    _ => code.and_then(char::from_u32),
                };
                if code.is_some() {
                    letters = rest[4..].chars();
                }
                match meant {
                    Some('\n') if keeps => cleaned.push_str("\\n"),
                    Some(meant) if steers(meant) => cleaned.push(' '),
                    _ => {
                        cleaned.push('\\');
                        cleaned.push(escape);
                        cleaned.push_str(code.map_or("", |_| &rest[..4]));
                    }
                }
            }
            _ if inside && steers(letter) || raw(letter) => cleaned.push(' '),
            _ => cleaned.push(letter),
        }
    }
    Some(cleaned)
}

/// True if a string that begins now is the value of `key`. `began` is the start of the string before it.
fn is_value_of(json: &str, began: usize, key: &str) -> bool {
    let before = json.get(began..).and_then(|rest| rest.strip_prefix(key));
    let between = before.and_then(|rest| rest.strip_prefix('"'));
    between.is_some_and(|between| between.trim() == ":")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[31m\u{9b}\u{202e}\u{2066}\u{7}\n\t\u{7f}b \u{e9}\u{1f600} \"\\u001b\"";

    fn strings(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) => vec![text.clone()],
            Value::Array(all) => all.iter().flat_map(strings).collect(),
            Value::Object(all) => {
                let inside = all.iter();
                let inside =
                    inside.flat_map(|(key, one)| [vec![key.clone()], strings(one)].concat());
                inside.collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn no_string_of_a_message_steers_the_terminal() {
        let json = serde_json::json!({HOSTILE: [HOSTILE, {"x": HOSTILE}], "n": 1.5});
        let escaped = r#"["\u001b\u009B\u202E\u0007", "\u00e9\ud83d\ude00\\u001b"]"#;
        for text in [
            json.to_string(),
            serde_json::to_string_pretty(&json).unwrap(),
            escaped.to_owned(),
        ] {
            let read: Value = read(text.as_bytes()).unwrap();
            for one in strings(&read) {
                assert!(!one.contains(steers), "{one:?}");
            }
        }
        let kept: Vec<String> = read(escaped.as_bytes()).unwrap();
        assert_eq!(kept, ["    ", "\u{e9}\u{1f600}\\u001b"]);
    }

    #[test]
    fn no_error_steers_the_terminal() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Word {
            Ready,
        }
        let text = serde_json::to_string(HOSTILE).unwrap();
        let error = read::<Word>(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("[31m") && !error.contains(steers),
            "{error:?}"
        );
        assert!(matches!(read(b"\"ready\""), Ok(Word::Ready)));
        assert!(read::<Word>(b"\"\xff\x1b\"").is_err());
    }

    /// Regression test: one byte that is not UTF-8, in a skipped field, let all other strings through uncleaned.
    #[test]
    fn a_byte_that_is_no_text_lets_nothing_through() {
        #[derive(Debug, serde::Deserialize)]
        struct Hello {
            #[expect(dead_code, reason = "it must not be read")]
            cpu: String,
        }
        let json = b"{\"zzz\":\"\xff\",\"cpu\":\"\\u001b]0;x\\u0007\"}";
        let error = read::<Hello>(json).unwrap_err().to_string();
        assert_eq!(error, "byte 9 is not UTF-8");
    }

    #[test]
    fn a_text_of_lines_keeps_their_ends_and_nothing_else_that_steers() {
        let json = serde_json::json!({
            "a": "x\ny", "seal": "x\ny\u{1b}\n", "b": {"seal": "x\ny"}, "c": "seal", "d": ["x\ny", "seal"],
        });
        let own = serde_json::json!({
            "a": "x y", "seal": "x\ny \n", "b": {"seal": "x\ny"}, "c": "seal", "d": ["x y", "seal"],
        });
        for text in [
            json.to_string(),
            serde_json::to_string_pretty(&json).unwrap(),
        ] {
            let read: Value = read_but(text.as_bytes(), &["seal"]).unwrap();
            assert_eq!(read, own);
        }
    }

    #[test]
    fn all_crates_call_the_same_characters_steering() {
        let mut all = '\0'..=char::MAX;
        assert!(all.all(|letter| steers(letter) == latency::fabric::steers(letter)));
    }

    /// Regression test: TOML has its own escapes, so that marks of bidirectional text came out of a description that was cleaned.
    #[test]
    fn no_name_of_a_fabric_turns_the_text_beside_it_around() {
        use latency::{description, fabric::Fabric};
        let fabric = |fabric: &str, host: &str, cable: &str| {
            let text = format!(
                "version = 1\nname = \"{fabric}\"\nhosts = [\"{host}\", \"b\"]\nswitches = [\"s\"]\n[[cables]]\n\
                 list = [[\"{host}\", \"s\", \"{cable}\"], [\"b\", \"s\"]]\n[routes]\nrule = \"symmetric\"\n"
            );
            Fabric::new(&description::read(&text)?)
        };
        assert!(fabric("f", "a", "c").is_ok());
        let turned = "\\u202Ea";
        for refused in [
            fabric(turned, "a", "c"),
            fabric("f", turned, "c"),
            fabric("f", "a", turned),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(!error.contains(steers), "{error:?}");
        }
    }

    /// Regression test: a host's time of 1e308 s made a mean of infinity, which a record cannot hold: it could not be read again.
    #[test]
    fn a_number_of_which_no_figure_can_be_made_is_refused() {
        for number in ["1e308", "-1E101", &format!("1{}", "0".repeat(120))] {
            let text = format!("{{\"1e308 \\\"\": [0.5, {number}]}}");
            let what = read::<Value>(text.as_bytes()).unwrap_err().to_string();
            assert!(what.ends_with("is too large a number"), "{what}");
        }
        let sound = "[1e99, -2.5e-300, 18446744073709551615, \"1e308\"]";
        assert!(read::<Value>(sound.as_bytes()).is_ok());
    }

    #[test]
    fn a_text_that_is_short_and_needs_much_memory_is_refused_before_it_is_read() {
        let refused = |entry: &str| {
            let text = format!("[{}0]", entry.repeat(3_000_000));
            read::<serde::de::IgnoredAny>(text.as_bytes()).unwrap_err()
        };
        for entry in ["\"\",", "null,", "[],", "{},", "0,"] {
            let what = refused(entry).to_string();
            assert_eq!(what, "its values need more than 160 MiB of memory");
        }
        // Keys need no memory of their own, and text of a string is no value.
        assert_eq!(
            Weight::of("{\"a,[\":1,\"b\":\"\\\",n\"}").needs_bytes,
            2 * 64 + 128 + 10 * 3
        );
    }

    proptest! {
        #[test]
        fn what_does_not_steer_stays_as_it_is(texts in proptest::collection::vec(".{0,20}", 0..6)) {
            let json = serde_json::to_string(&texts).unwrap();
            let read: Vec<String> = read(json.as_bytes()).unwrap();
            let clean: Vec<String> = texts.iter().map(|text| clean(text).into_owned()).collect();
            prop_assert_eq!(read, clean);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let quoted = format!("\"{text}\\u");
            for text in [&text, &quoted] {
                if let Ok(value) = read::<Value>(text.as_bytes()) {
                    prop_assert!(strings(&value).iter().all(|one| !one.contains(steers)));
                }
            }
        }
    }
}
