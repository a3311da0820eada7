//! Which language a report is written in: `--lang`, or what the locale says.

use clap::{Args, ValueEnum};
use roformer::language::Language;

/// The flag of commands that say much in words. What they print with `--json`, and errors, are the same in every language.
#[derive(Args)]
pub struct LanguageOption {
    /// The language of what is written for people [default: the locale's, by LC_ALL, LC_MESSAGES or LANG; else English]
    #[arg(long, value_name = "LANG", value_enum)]
    lang: Option<Code>,
}

/// A language by its code.
#[derive(Clone, Copy, ValueEnum)]
pub enum Code {
    /// English
    En,
    /// Chinese
    Zh,
}

impl LanguageOption {
    /// The language that is asked for.
    pub fn language(&self) -> Language {
        match self.lang {
            Some(Code::En) => Language::English,
            Some(Code::Zh) => Language::Chinese,
            None => Language::of_locale(|name| std::env::var(name).ok()),
        }
    }
}
