//! Who may ask: whoever has a key, where there are any.

use axum::http::{HeaderMap, header};
use subtle::{Choice, ConstantTimeEq};

/// Whether a request with these headers has one of the keys. How long that takes does not depend on how much of a key is right.
pub fn is_right(headers: &HeaderMap, keys: &[String]) -> bool {
    if keys.is_empty() {
        return true;
    }
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let bytes = given.as_bytes();
    let Some((scheme, given)) = bytes.split_at_checked(b"Bearer ".len()) else { return false };
    if !scheme.eq_ignore_ascii_case(b"Bearer ") {
        return false;
    }
    // All keys are compared, whichever is right.
    keys.iter().fold(Choice::from(0), |found, key| found | key.as_bytes().ct_eq(given)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_of_the_keys_as_a_whole() {
        let keys = ["secret".to_string(), "other".to_string()];
        let headers = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        for value in ["Bearer secret", "bearer other"] {
            assert!(is_right(&headers(value), &keys), "{value}");
        }
        for value in
            ["", "Bearer ", "Bearer secre", "Bearer secrets", "secret", "Basic secret", "Bearer  secret"]
        {
            assert!(!is_right(&headers(value), &keys), "{value}");
            assert!(is_right(&headers(value), &[]));
        }
        assert!(!is_right(&HeaderMap::new(), &keys));
        let mut twice = headers("Bearer secret");
        twice.append(header::AUTHORIZATION, "Bearer secret".parse().unwrap());
        assert!(!is_right(&twice, &keys));
    }
}
