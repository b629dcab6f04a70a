//! The steps of a conversation that is data: one a line. A line that begins with a blank goes on
//! with the one before; `#` begins a comment.

/// Logical lines, each with the number of its first.
pub(crate) fn steps(text: &str) -> Vec<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match steps.last_mut() {
            Some((_, step)) if line.starts_with(' ') => {
                step.push(' ');
                step.push_str(line.trim());
            }
            _ => steps.push((index + 1, line.trim_end().to_owned())),
        }
    }
    steps
}
