//! What GPU tests do where there is no GPU: they skip, saying so, or fail where a GPU is required.

use std::fmt::Display;
use std::io::Write;

/// What was found, if it was. What was not is said past the harness, which would show it only for tests that fail; and where
/// `ROFORMER_CUDA` is `required`, the test fails.
#[track_caller]
pub fn or_skip<T, E: Display>(found: Result<T, E>) -> Option<T> {
    or_skip_unless(std::env::var_os("ROFORMER_CUDA").is_some_and(|value| value == "required"), found)
}

#[track_caller]
fn or_skip_unless<T, E: Display>(is_required: bool, found: Result<T, E>) -> Option<T> {
    let why = match found {
        Ok(found) => return Some(found),
        Err(why) => why,
    };
    assert!(!is_required, "ROFORMER_CUDA=required, and {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let _ = writeln!(std::io::stderr(), "{test} skipped: {why}");
    None
}

#[cfg(test)]
mod tests {
    use super::or_skip_unless;

    #[test]
    fn what_is_found_is_given_and_what_is_not_skips() {
        assert_eq!(or_skip_unless(true, Ok::<_, String>(3)), Some(3));
        assert_eq!(or_skip_unless(false, Err::<i32, _>("no GPU")), None);
    }

    #[test]
    #[should_panic = "ROFORMER_CUDA=required, and no GPU"]
    fn what_is_required_and_not_found_fails() {
        or_skip_unless(true, Err::<i32, _>("no GPU"));
    }
}
