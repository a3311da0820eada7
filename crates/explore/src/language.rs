//! The two languages of the page, and which of them a request asks for.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use std::convert::Infallible;

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese in simplified characters.
    Chinese,
}

impl Language {
    /// All of them, by the codes that an address has.
    pub const ALL: [(&'static str, Language); 2] = [("en", Language::English), ("zh", Language::Chinese)];

    /// The one of two that is in this language.
    pub fn of<T>(self, english: T, chinese: T) -> T {
        match self {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }

    /// The first language of `Accept-Language` that there is; English if there is none.
    pub fn accepted(headers: &HeaderMap) -> Language {
        let value = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let known = |range: &str| {
            let primary = range.trim().split(['-', ';']).next().unwrap_or_default();
            Self::ALL
                .iter()
                .find(|(code, _)| primary.eq_ignore_ascii_case(code))
                .map(|&(_, language)| language)
        };
        value.split(',').find_map(known).unwrap_or_default()
    }
}

impl<S: Sync> FromRequestParts<S> for Language {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Language::accepted(&parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_language_that_there_is_counts() {
        let accepted = |value: &'static str| {
            Language::accepted(&HeaderMap::from_iter([(ACCEPT_LANGUAGE, value.parse().unwrap())]))
        };
        for value in ["zh", "zh-CN,zh;q=0.9,en;q=0.8", "fr, ZH-hans;q=0.5", "de,zh-TW"] {
            assert_eq!(accepted(value), Language::Chinese, "{value}");
        }
        for value in ["en", "en-GB,zh;q=0.5", "fr", "", "*", "zha", ";;,"] {
            assert_eq!(accepted(value), Language::English, "{value}");
        }
        assert_eq!(Language::accepted(&HeaderMap::new()), Language::English);
    }
}
