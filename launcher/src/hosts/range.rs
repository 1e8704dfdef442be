//! The numbers of a range in a host list.

/// A range: `3`, `01-16` or `1-63/2`.
pub(super) struct Range {
    first: u64,
    last: u64,
    step: u64,
    width: usize,
}

impl Range {
    pub(super) fn parse(text: &str) -> Result<Range, &'static str> {
        let (span, step) = match text.split_once('/') {
            Some((span, step)) => (
                span,
                number(step).ok_or("the step is not a decimal number")?,
            ),
            None => (text, 1),
        };
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let range = Range {
            first: number(first).ok_or("the first is not a decimal number")?,
            last: number(last).ok_or("the last is not a decimal number")?,
            step,
            width: first.len(),
        };
        if step == 0 {
            return Err("the step is zero");
        }
        if range.last < range.first {
            return Err("the last is smaller than the first");
        }
        if last.starts_with('0') && last.len() != first.len() {
            return Err("first and last have different numbers of digits");
        }
        Ok(range)
    }

    pub(super) fn count(&self) -> u64 {
        (self.last - self.first) / self.step + 1
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let (first, step, width) = (self.first, self.step, self.width);
        (0..self.count()).map(move |at| format!("{:0width$}", first + at * step))
    }
}

/// Parses a decimal number without sign. At most 18 digits, so that arithmetic does not overflow.
pub(super) fn number(text: &str) -> Option<u64> {
    const MAX_DIGITS: usize = 18;
    let plain =
        !text.is_empty() && text.len() <= MAX_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
