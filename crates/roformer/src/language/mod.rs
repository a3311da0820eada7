//! The languages that people are told things in: English and Chinese.
//!
//! Both forms of a sentence stand beside each other where it is said, so that whoever changes one sees the other, and neither
//! can be forgotten: `language.of("settings", "设置")`. Sentences that come from elsewhere as text, from `rope` or from a file,
//! are found in a [`Catalogue`].

mod catalogue;

pub use catalogue::Catalogue;

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
    /// The language that the environment asks for: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that says anything decides,
    /// and all that is not Chinese is English.
    ///
    /// ```
    /// use roformer::language::Language;
    ///
    /// let of = |name: &str| (name == "LANG").then(|| "zh_CN.UTF-8".to_string());
    /// assert_eq!(Language::of_locale(of), Language::Chinese);
    /// assert_eq!(Language::of_locale(|_| None), Language::English);
    /// ```
    pub fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Language {
        let said = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(variable);
        let locale = said.into_iter().find(|locale| !locale.is_empty()).unwrap_or_default();
        // `zh`, or `zh` and what comes after it: a territory, a set of characters, a variant.
        let name = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
        if name.eq_ignore_ascii_case("zh") { Language::Chinese } else { Language::English }
    }

    /// The one of two that is in this language.
    pub fn of<T>(self, english: T, chinese: T) -> T {
        match self {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }

    /// As pages say which language they are in.
    pub fn tag(self) -> &'static str {
        self.of("en", "zh-CN")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_says_anything_decides() {
        let of = |all: &str, messages: &str, lang: &str| {
            let said = [("LC_ALL", all), ("LC_MESSAGES", messages), ("LANG", lang)];
            Language::of_locale(|name| {
                said.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
            })
        };
        assert_eq!(of("", "", "zh_CN.UTF-8"), Language::Chinese);
        assert_eq!(of("", "zh", "en_US.UTF-8"), Language::Chinese);
        assert_eq!(of("C", "zh_CN", "zh_CN"), Language::English);
        assert_eq!(of("", "C.UTF-8", "zh_CN"), Language::English);
        for locale in ["zh_TW", "zh-Hans", "ZH_cn", "zh.UTF-8", "zh@pinyin"] {
            assert_eq!(of(locale, "", ""), Language::Chinese, "{locale}");
        }
        for locale in ["zha", "en_ZH", "POSIX", "de_DE", "z"] {
            assert_eq!(of(locale, "", "zh"), Language::English, "{locale}");
        }
    }
}
