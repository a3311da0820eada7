//! Addresses and headers, taken apart.

use ureq::http::header::LOCATION;
use ureq::http::{HeaderMap, Uri};

pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The first byte and the length of the whole in a `Content-Range`.
pub(super) fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (bytes, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let from = bytes.split_once('-')?.0.parse().ok()?;
    Some((from, total.parse().ok()))
}

/// Scheme, host and port.
pub(super) fn origin(uri: &Uri) -> Option<(&str, &str, u16)> {
    let (scheme, host) = (uri.scheme_str()?, uri.host()?);
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    Some((scheme, host, uri.port_u16().unwrap_or(usual)))
}

/// Where an answer redirects to: a whole address, or a path on the same host.
pub(super) fn target(from: &Uri, headers: &HeaderMap) -> Option<Uri> {
    let to: Uri = text(headers, LOCATION.as_str())?.parse().ok()?;
    if to.scheme().is_some() {
        return Some(to).filter(|to| origin(to).is_some());
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = to.into_parts().path_and_query.filter(|path| path.as_str().starts_with('/'));
    parts.path_and_query.as_ref()?;
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn origins() {
        assert_eq!(origin(&uri("https://a.b/c")), origin(&uri("https://a.b:443/d")));
        for other in ["http://a.b/c", "https://a.b:8443/c", "https://b/c", "https://a.b.c/"] {
            assert_ne!(origin(&uri("https://a.b/c")), origin(&uri(other)), "{other}");
        }
        assert_eq!(origin(&uri("ftp://a/b")), None);
        assert_eq!(origin(&uri("/a/b")), None);
    }

    #[test]
    fn targets() {
        let to = |location: &str| {
            let headers = [(LOCATION, location.parse().unwrap())].into_iter().collect();
            target(&uri("https://a.b/c?d"), &headers).map(|uri| uri.to_string())
        };
        assert_eq!(to("/e?f=%20").as_deref(), Some("https://a.b/e?f=%20"));
        assert_eq!(to("http://g/h").as_deref(), Some("http://g/h"));
        for nowhere in ["", "e", "ftp://a/b", "file:///etc/hostname", "?d"] {
            assert_eq!(to(nowhere), None, "{nowhere}");
        }
        assert_eq!(target(&uri("https://a.b/c"), &HeaderMap::new()), None);
    }

    #[test]
    fn ranges() {
        assert_eq!(range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["", "5-9/10", "bytes */10", "bytes -5/10", "bytes 5", "bytes 99999999999999999999-1/2"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
