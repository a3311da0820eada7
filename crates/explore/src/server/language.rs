//! Which language a request asks for.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use roformer::language::Language;
use std::convert::Infallible;

/// The first language of `Accept-Language` that there is; English if there is none.
pub fn accepted(headers: &HeaderMap) -> Language {
    let value = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = |range: &str| match range.trim().split(['-', ';']).next().unwrap_or_default() {
        code if code.eq_ignore_ascii_case("en") => Some(Language::English),
        code if code.eq_ignore_ascii_case("zh") => Some(Language::Chinese),
        _ => None,
    };
    value.split(',').find_map(known).unwrap_or_default()
}

/// The language of a request, for whoever answers it.
pub struct Asked(pub Language);

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Asked(accepted(&parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_language_that_there_is_counts() {
        let of = |value: &'static str| {
            accepted(&HeaderMap::from_iter([(ACCEPT_LANGUAGE, value.parse().unwrap())]))
        };
        for value in ["zh", "zh-CN,zh;q=0.9,en;q=0.8", "fr, ZH-hans;q=0.5", "de,zh-TW"] {
            assert_eq!(of(value), Language::Chinese, "{value}");
        }
        for value in ["en", "en-GB,zh;q=0.5", "fr", "", "*", "zha", ";;,"] {
            assert_eq!(of(value), Language::English, "{value}");
        }
        assert_eq!(accepted(&HeaderMap::new()), Language::English);
    }
}
