//! RFC 9111 and 9110 as a table, through the binary: the origin's responses, the next requests, and
//! whether the edge serves them from storage. The cases follow the public `http-cache-tests`.
use std::{collections::HashMap, process::Command, sync::Mutex};

use crate::support::{
    edge::{Answer, Asked, Edge, Origin, with_edge},
    tls::Tls,
};

const SHOP: &str = "shop.example";

/// Where a response comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// From storage.
    Hit,
    /// From the origin.
    Miss,
    /// From storage, after the origin answered 304 to the validator.
    Confirmed,
    /// From storage, while the edge requests a new response.
    Stale,
    /// From the edge itself, which has no response.
    Nothing,
}
use Told::{Confirmed, Hit, Miss, Nothing, Stale};

/// The rule; the origin's response, with a status other than 200 first; the requests after a first
/// plain `GET`, with a method other than `GET` first, and the source of each response. `{+60}` is
/// the date in 60 s.
type Case = (&'static str, &'static str, &'static [(&'static str, Told)]);

#[rustfmt::skip]
const FRESHNESS: &[Case] = &[
    ("9111 4.2.1 max-age", "cache-control: max-age=3600", &[("", Hit), ("", Hit)]),
    ("9111 4.2.1 max-age over", "cache-control: max-age=60\nage: 60", &[("", Miss)]),
    ("9111 5.2.2.1 max-age=0", "cache-control: max-age=0", &[("", Miss)]),
    ("9111 1.2.2 2^31-1", "cache-control: max-age=2147483647", &[("", Hit)]),
    ("9111 1.2.2 2^31", "cache-control: max-age=2147483648", &[("", Hit)]),
    ("9111 1.2.2 2^31+1", "cache-control: max-age=2147483649", &[("", Hit)]),
    ("9111 1.2.2 beyond", "cache-control: max-age=99999999999", &[("", Hit)]),
    ("9111 5.2 any case", "cache-control: MaX-aGe=3600", &[("", Hit)]),
    ("9111 5.2.3 extension", "cache-control: max-age=3600, x-y=z", &[("", Hit)]),
    ("9111 4.2.1 negative", "cache-control: max-age=-3600", &[("", Miss)]),
    ("9111 4.2.3 Age", "cache-control: max-age=3600\nage: 12000", &[("", Miss)]),
    ("9111 4.2.3 old Date", "cache-control: max-age=3600\ndate: {-7200}", &[("", Miss)]),
    ("9111 5.3 max-age wins over the past", "cache-control: max-age=3600\nexpires: {-60}", &[("", Hit)]),
    ("9111 5.3 and over what is no date", "cache-control: max-age=3600\nexpires: 0", &[("", Hit)]),
    ("9111 5.3 max-age=0 wins over Expires", "cache-control: max-age=0\nexpires: {+3600}", &[("", Miss)]),
    ("9111 5.2.2.10 s-maxage", "cache-control: s-maxage=3600", &[("", Hit)]),
    ("9111 5.2.2.10 shorter", "cache-control: max-age=3600, s-maxage=1\nage: 1", &[("", Miss)]),
    ("9111 5.2.2.10 shorter, first", "cache-control: s-maxage=1, max-age=3600\nage: 1", &[("", Miss)]),
    ("9111 5.2.2.10 shorter, lines", "cache-control: max-age=3600\ncache-control: s-maxage=1\nage: 1", &[("", Miss)]),
    ("9111 5.2.2.10 longer", "cache-control: max-age=1, s-maxage=3600\nage: 9", &[("", Hit)]),
    ("9111 5.2.2.10 longer, past", "cache-control: max-age=0, s-maxage=3600\nexpires: {-60}", &[("", Hit)]),
    ("9111 4.2.2 nothing said", "x: y", &[("", Miss)]),
    ("9111 5.3 Expires", "expires: {+3600}\ndate: {0}", &[("", Hit)]),
    ("9111 5.3 past", "expires: {-3600}\ndate: {0}", &[("", Miss)]),
    ("9111 5.3 now", "expires: {0}\ndate: {0}", &[("", Miss)]),
    ("9111 5.3 before a fast Date", "expires: {+300}\ndate: {+400}", &[("", Miss)]),
    ("9111 5.3 no date", "expires: 0\ndate: {0}", &[("", Miss)]),
    ("9111 5.3 Date is no date", "expires: {+3600}\ndate: today", &[("", Hit)]),
    ("9111 5.3 Age beyond", "expires: {+3600}\ndate: {0}\nage: 7200", &[("", Miss)]),
    ("9111 5.3 Age beyond a slow Date", "expires: {+3600}\ndate: {-100}\nage: 7200", &[("", Miss)]),
    ("9110 5.6.7 far", "expires: Fri, 31 Dec 9999 23:59:59 GMT\ndate: {0}", &[("", Hit)]),
    ("9110 5.6.7 RFC 850", "expires: Thursday, 18-Aug-50 02:01:18 GMT\ndate: {0}", &[("", Hit)]),
    ("9110 5.6.7 asctime", "expires: Thu Aug 18 02:01:18 2050\ndate: {0}", &[("", Hit)]),
    ("9110 5.6.7 UTC", "expires: Thu, 18 Aug 2050 02:01:18 UTC\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 AEST", "expires: Thu, 18 Aug 2050 02:01:18 AEST\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 two digits", "expires: Thu, 18 Aug 50 02:01:18 GMT\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 no comma", "expires: Thu 18 Aug 2050 02:01:18 GMT\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 spaces", "expires: Thu, 18  Aug  2050 02:01:18 GMT\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 dashes", "expires: Thu, 18-Aug-2050 02:01:18 GMT\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 full stops", "expires: Thu, 18 Aug 2050 02.01.18 GMT\ndate: {0}", &[("", Miss)]),
    ("9110 5.6.7 one digit", "expires: Thu, 18 Aug 2050 2:01:18 GMT\ndate: {0}", &[("", Miss)]),
    ("9111 5.3 two lines", "expires: {+3600}\nexpires: {-3600}\ndate: {0}", &[("", Miss)]),
    ("9111 4.2.2 a tenth", "last-modified: {-36000}\ndate: {0}", &[("", Hit)]),
    ("9111 4.2.2 of nothing", "last-modified: {0}\ndate: {0}", &[("", Confirmed)]),
    ("9111 4.2.2 204", "204\nlast-modified: {-36000}\ndate: {0}", &[("", Hit)]),
    ("9111 4.2.2 404", "404\nlast-modified: {-36000}\ndate: {0}", &[("", Hit)]),
    ("9111 4.2.2 410", "410\nlast-modified: {-36000}\ndate: {0}", &[("", Hit)]),
    ("9111 4.2.2 not 201", "201\nlast-modified: {-36000}\ndate: {0}", &[("", Miss)]),
    ("9111 4.2.2 not 403", "403\nlast-modified: {-36000}\ndate: {0}", &[("", Miss)]),
    ("9111 4.2.2 not 500", "500\nlast-modified: {-36000}\ndate: {0}", &[("", Miss)]),
    ("9111 4.2.2 not 599", "599\nlast-modified: {-36000}\ndate: {0}", &[("", Miss)]),
    ("9111 5.1 Age: no number", "cache-control: max-age=3600\nage: abc", &[("", Hit)]),
    ("9111 5.1 Age: negative", "cache-control: max-age=3600\nage: -7200", &[("", Hit)]),
    ("9111 5.1 Age: a fraction", "cache-control: max-age=3600\nage: 7200.0", &[("", Hit)]),
    ("9111 5.1 Age: 2^31-1", "cache-control: max-age=3600\nage: 2147483647", &[("", Miss)]),
    ("9111 5.1 Age: 2^31", "cache-control: max-age=3600\nage: 2147483648", &[("", Miss)]),
    ("9111 5.1 Age: 2^32", "cache-control: max-age=3600\nage: 4294967296", &[("", Miss)]),
    ("9111 5.1 Age: old, 0", "cache-control: max-age=3600\nage: 7200, 0", &[("", Miss)]),
    ("9111 5.1 Age: 0, old", "cache-control: max-age=3600\nage: 0, 7200", &[("", Hit)]),
    ("9111 5.1 Age: old, then 0", "cache-control: max-age=3600\nage: 7200\nage: 0", &[("", Miss)]),
    ("9111 5.1 Age: 0, then old", "cache-control: max-age=3600\nage: 0\nage: 7200", &[("", Hit)]),
];

#[rustfmt::skip]
const STORING: &[Case] = &[
    ("9111 5.2.2.7 private", "cache-control: private, max-age=3600", &[("", Miss)]),
    ("9111 5.2.2.7 with names", "cache-control: private=\"x-user\", max-age=3600", &[("", Miss)]),
    ("9111 5.2.2.5 no-store", "cache-control: no-store", &[("", Miss)]),
    ("9111 5.2.2.5 any case", "cache-control: No-StOrE", &[("", Miss)]),
    ("9111 5.2.2.5 with freshness", "cache-control: max-age=10000, no-store\nexpires: {+3600}\ndate: {0}", &[("", Miss)]),
    ("9111 5.2.2.4 no-cache", "cache-control: no-cache\nexpires: {+3600}", &[("", Miss)]),
    ("9111 5.2.2.4 with max-age", "cache-control: no-cache, max-age=3600", &[("", Miss)]),
    ("9111 5.2.2.4 is validated", "cache-control: no-cache, max-age=3600\netag: \"a\"", &[("", Confirmed)]),
    ("9111 5.2.2.4 with names", "cache-control: no-cache=\"x-user\", max-age=3600\netag: \"a\"", &[("", Confirmed)]),
    ("9111 5.2.2.2 must-revalidate, fresh", "cache-control: max-age=3600, must-revalidate", &[("", Hit)]),
    ("9111 5.2.2.2 must-revalidate, stale", "cache-control: max-age=60, must-revalidate\nage: 60\netag: \"a\"", &[("Cache-Control: max-stale", Confirmed)]),
    ("9111 5.2.2.8 proxy-revalidate, fresh", "cache-control: max-age=3600, proxy-revalidate", &[("", Hit)]),
    ("9111 5.2.2.8 proxy-revalidate, stale", "cache-control: max-age=60, proxy-revalidate\nage: 60\netag: \"a\"", &[("Cache-Control: max-stale", Confirmed)]),
    ("9111 5.2.2.10 s-maxage, stale", "cache-control: s-maxage=60\nage: 60\netag: \"a\"", &[("Cache-Control: max-stale", Confirmed)]),
    ("9111 5.2.2.4 no-cache, stale", "cache-control: no-cache\netag: \"a\"", &[("Cache-Control: max-stale", Confirmed)]),
    ("8246 immutable, fresh", "cache-control: max-age=3600, immutable", &[("", Hit)]),
    ("8246 immutable, stale", "cache-control: max-age=60, immutable\nage: 60", &[("", Miss)]),
    ("8246 immutable alone", "cache-control: immutable", &[("", Miss)]),
    ("9111 5.2.2.3 must-understand, unknown status", "599\ncache-control: max-age=3600, no-store, must-understand", &[("", Miss)]),
    ("9111 5.2.2.3 no-store stays", "cache-control: max-age=3600, no-store, must-understand", &[("", Miss)]),
    ("9111 3.5 Authorization", "cache-control: max-age=3600", &[("PUT", Miss), ("Authorization: Basic eA==", Miss), ("", Miss)]),
    ("9111 5.4 Pragma", "pragma: no-cache\nexpires: {+3600}", &[("", Miss)]),
    ("9111 5.4 Pragma: other", "pragma: x\nexpires: {+3600}", &[("", Hit)]),
    ("9111 7.3 Set-Cookie", "cache-control: max-age=3600\nset-cookie: a=b", &[("", Miss)]),
    ("9111 3 200 and a Cookie", "cache-control: max-age=3600", &[("Cookie: a=b", Hit)]),
    ("9111 3 attachment", "cache-control: max-age=3600\ncontent-disposition: attachment; filename=x", &[("", Hit)]),
    ("9111 3 203", "203\ncache-control: max-age=3600", &[("", Hit)]),
    ("9111 3 204", "204\ncache-control: max-age=3600", &[("", Hit)]),
    ("9111 3 301", "301\ncache-control: max-age=3600\nlocation: /x", &[("", Hit)]),
    ("9111 3 302", "302\ncache-control: max-age=3600\nlocation: /x", &[("", Hit)]),
    ("9111 3 302, nothing said", "302\nlocation: /x\nlast-modified: {-36000}", &[("", Miss)]),
    ("9111 3 303", "303\ncache-control: max-age=3600\nlocation: /x", &[("", Hit)]),
    ("9111 3 307", "307\ncache-control: max-age=3600\nlocation: /x", &[("", Hit)]),
    ("9111 3 308", "308\ncache-control: max-age=3600\nlocation: /x", &[("", Hit)]),
    ("9111 3 404", "404\ncache-control: max-age=3600", &[("", Hit)]),
    ("9111 3 404, stale", "404\ncache-control: max-age=60\nage: 60", &[("", Miss)]),
    ("9111 3 410", "410\ncache-control: max-age=3600", &[("", Hit)]),
    ("9111 3 400", "400\ncache-control: max-age=3600", &[("", Miss)]),
    ("9111 3 401", "401\ncache-control: max-age=3600", &[("", Miss)]),
    ("9111 3 403", "403\ncache-control: max-age=3600", &[("", Miss)]),
    ("9111 3 500", "500\ncache-control: max-age=3600", &[("", Miss)]),
    ("9111 3 503", "503\ncache-control: max-age=3600", &[("", Miss)]),
    ("9111 3 206 unasked", "206\ncache-control: max-age=3600\ncontent-range: bytes 0-0/9", &[("", Miss)]),
    ("9111 4.2.1 in quotes", "cache-control: max-age=\"3600\"", &[("", Hit)]),
    ("9111 4.2.1 in a quoted string, before", "cache-control: x=\"max-age=3600\", max-age=0", &[("", Miss)]),
    ("9111 4.2.1 in a quoted string, after", "cache-control: max-age=0, x=\"max-age=3600\"", &[("", Miss)]),
    ("9111 4.2.1 in a list in one", "cache-control: x=\"a, max-age=3600, b\"", &[("", Miss)]),
    ("9111 4.2.1 in single quotes", "cache-control: max-age='3600'", &[("", Miss)]),
    ("9111 4.2.1 zeros", "cache-control: max-age=003600", &[("", Hit)]),
    ("9111 4.2.1 a fraction", "cache-control: max-age=3600.5", &[("", Miss)]),
    ("9111 4.2.1 alpha first", "cache-control: max-age=a3600", &[("", Miss)]),
    ("9111 4.2.1 alpha last", "cache-control: max-age=3600a", &[("", Miss)]),
    ("9111 4.2.1 space before =", "cache-control: max-age =3600", &[("", Miss)]),
    ("9111 4.2.1 space after =", "cache-control: max-age= 3600", &[("", Miss)]),
    ("9111 4.2.1 fresh, then stale", "cache-control: max-age=3600, max-age=1\nage: 1", &[("", Miss)]),
    ("9111 4.2.1 stale, then fresh", "cache-control: max-age=1, max-age=3600\nage: 1", &[("", Miss)]),
    ("9111 4.2.1 fresh, then stale, lines", "cache-control: max-age=3600\ncache-control: max-age=1\nage: 1", &[("", Miss)]),
    ("9111 4.2.1 stale, then fresh, lines", "cache-control: max-age=1\ncache-control: max-age=3600\nage: 1", &[("", Miss)]),
    ("9111 5.2 no grammar: semicolon", "cache-control: max-age=3600; private", &[("", Miss)]),
    ("9111 5.2 no grammar: bytes", "cache-control: private, \u{e9}", &[("", Miss)]),
    ("9111 5.2 no grammar: bytes, fresh", "cache-control: max-age=3600, \u{e9}", &[("", Miss)]),
    ("9111 5.2 no grammar: second line", "cache-control: max-age=3600\ncache-control: private\u{e9}", &[("", Miss)]),
    ("9111 5.2 no grammar: open quote", "cache-control: max-age=3600, x=\"private", &[("", Miss)]),
];

#[rustfmt::skip]
const REQUESTS: &[Case] = &[
    ("9111 5.2.1.1 max-age=0", "cache-control: max-age=3600\nage: 1", &[("Cache-Control: max-age=0", Miss)]),
    ("9111 5.2.1.1 not young enough", "cache-control: max-age=3600\nage: 1800", &[("Cache-Control: max-age=600", Miss)]),
    ("9111 5.2.1.1 young enough", "cache-control: max-age=3600\nage: 100", &[("Cache-Control: max-age=600", Hit)]),
    ("9111 5.2.1.2 max-stale", "cache-control: max-age=60\nage: 90\netag: \"a\"", &[("Cache-Control: max-stale=1000", Hit), ("Cache-Control: max-stale=10", Confirmed)]),
    ("9111 5.2.1.2 any", "cache-control: max-age=60\nage: 90\netag: \"a\"", &[("Cache-Control: max-stale", Hit)]),
    ("9111 5.2.1.3 min-fresh", "cache-control: max-age=1500", &[("Cache-Control: min-fresh=2000", Miss)]),
    ("9111 5.2.1.3 with Age", "cache-control: max-age=1500\nage: 1000", &[("Cache-Control: min-fresh=1000", Miss)]),
    ("9111 5.2.1.4 no-cache", "cache-control: max-age=3600", &[("Cache-Control: no-cache", Miss)]),
    ("9111 5.2.1.4 by Last-Modified", "cache-control: max-age=3600\nlast-modified: {-60}", &[("Cache-Control: no-cache", Confirmed)]),
    ("9111 5.2.1.4 by ETag", "cache-control: max-age=3600\netag: \"a\"", &[("Cache-Control: no-cache", Confirmed)]),
    ("9111 5.2.1.5 no-store asks for nothing", "cache-control: max-age=3600", &[("Cache-Control: no-store", Hit), ("", Hit)]),
    ("9111 5.2.1.5 nothing is stored of it", "cache-control: max-age=3600", &[("PUT", Miss), ("Cache-Control: no-store", Miss), ("Cache-Control: only-if-cached", Nothing)]),
    ("9111 5.2.1.7 only-if-cached", "cache-control: no-store", &[("Cache-Control: only-if-cached", Nothing)]),
    ("9111 5.2.1.7 stored", "cache-control: max-age=3600", &[("Cache-Control: only-if-cached", Hit)]),
    ("9111 5.4 Pragma: no-cache", "cache-control: max-age=3600", &[("Pragma: no-cache", Miss)]),
    ("9111 5.4 Pragma: other", "cache-control: max-age=3600", &[("Pragma: x", Hit)]),
    ("9111 5.2 no grammar", "cache-control: max-age=3600", &[("Cache-Control: max-age=60; x", Miss)]),
    ("9111 3 another query", "cache-control: max-age=3600", &[("GET ?other", Miss), ("", Hit), ("GET ?other", Hit)]),
    ("9111 4 HEAD", "cache-control: max-age=3600", &[("HEAD", Hit)]),
    ("9111 4 HEAD of what is not stored", "cache-control: no-store", &[("HEAD", Miss)]),
    ("9111 4.4 POST", "cache-control: max-age=3600", &[("", Hit), ("POST", Miss), ("", Miss), ("", Hit)]),
    ("9111 4.4 PUT", "cache-control: max-age=3600", &[("PUT", Miss), ("", Miss)]),
    ("9111 4.4 DELETE", "cache-control: max-age=3600", &[("DELETE", Miss), ("", Miss)]),
    ("9111 4.4 a method not known", "cache-control: max-age=3600", &[("M-SEARCH", Miss), ("", Miss)]),
    ("9111 4.4 Location", "cache-control: max-age=3600\nlocation: ?b", &[("GET ?b", Miss), ("GET ?c", Miss), ("POST", Miss), ("GET ?b", Miss), ("GET ?c", Hit)]),
    ("9111 4.4 Content-Location", "cache-control: max-age=3600\ncontent-location: ?b", &[("GET ?b", Miss), ("PUT", Miss), ("GET ?b", Miss), ("GET ?b", Hit)]),
    ("9111 4.4 Location of another origin", "cache-control: max-age=3600\nlocation: //evil.example?b", &[("GET ?b", Miss), ("POST", Miss), ("GET ?b", Hit)]),
    ("9111 4.4 Location, refused", "cache-control: max-age=3600\nlocation: ?b", &[("GET ?b", Miss), ("POST\nX-Status: 403\nX-Location: ?b", Miss), ("GET ?b", Hit)]),
    ("9111 4.4 OPTIONS is safe", "cache-control: max-age=3600", &[("OPTIONS", Miss), ("", Hit)]),
    ("9111 4.4 refused", "cache-control: max-age=3600", &[("POST\nX-Status: 403", Miss), ("", Hit)]),
    ("9111 4.4 failed", "cache-control: max-age=3600", &[("DELETE\nX-Status: 500", Miss), ("", Hit)]),
    ("5861 3 stale-while-revalidate", "cache-control: max-age=60, stale-while-revalidate=600\nage: 90", &[("", Stale)]),
    ("5861 3 over", "cache-control: max-age=60, stale-while-revalidate=600\nage: 700", &[("", Miss)]),
    ("5861 3 not for no-cache", "cache-control: max-age=60, stale-while-revalidate=600\nage: 90", &[("Cache-Control: no-cache", Miss)]),
    ("5861 3 proxy-revalidate", "cache-control: max-age=60, stale-while-revalidate=600, proxy-revalidate\nage: 90", &[("", Miss)]),
    ("5861 3 s-maxage, by name", "cache-control: s-maxage=60, stale-while-revalidate=600\nage: 90", &[("", Stale)]),
    ("5861 4 stale-if-error", "cache-control: max-age=60, stale-if-error=600\nage: 90", &[("X-Status: 503", Hit)]),
    ("5861 4 over", "cache-control: max-age=60, stale-if-error=600\nage: 700", &[("X-Status: 503", Miss)]),
    ("5861 4 not said", "cache-control: max-age=60\nage: 90", &[("X-Status: 503", Miss)]),
    ("5861 4 must-revalidate", "cache-control: max-age=60, stale-if-error=600, must-revalidate\nage: 90", &[("X-Status: 503", Miss)]),
    ("5861 4 proxy-revalidate", "cache-control: max-age=60, stale-if-error=600, proxy-revalidate\nage: 90", &[("X-Status: 503", Miss)]),
    ("5861 4 all that are failures", "cache-control: max-age=60, stale-if-error=600\nage: 90", &[("X-Status: 500", Hit), ("X-Status: 502", Hit), ("X-Status: 504", Hit), ("X-Status: 501", Miss)]),
    ("5861 4 no-cache=\"x\"", "cache-control: max-age=60, stale-if-error=600, no-cache=\"x\"\nage: 90", &[("X-Status: 503", Miss)]),
];

#[rustfmt::skip]
const VARIANTS: &[Case] = &[
    ("9111 4.1 the same", "cache-control: max-age=3600\nvary: foo", &[("Foo: 1", Miss), ("Foo: 1", Hit)]),
    ("9111 4.1 another", "cache-control: max-age=3600\nvary: foo", &[("Foo: 1", Miss), ("Foo: 2", Miss), ("Foo: 1", Hit)]),
    ("9111 4.1 absent", "cache-control: max-age=3600\nvary: foo", &[("Foo: 1", Miss), ("", Hit), ("Foo:", Miss)]),
    ("9111 4.1 not named", "cache-control: max-age=3600\nvary: foo", &[("Other: 2", Hit)]),
    ("9111 4.1 two", "cache-control: max-age=3600\nvary: foo, bar", &[("Foo: 1\nBar: a", Miss), ("Bar: a\nFoo: 1", Hit), ("Foo: 1", Miss), ("Foo: 1\nBar: b", Miss)]),
    ("9111 4.1 three, in lines", "cache-control: max-age=3600\nvary: foo, bar\nvary: baz", &[("Foo: 1\nBar: a\nBaz: x", Miss), ("Baz: x\nBar: a\nFoo: 1", Hit), ("Foo: 1\nBar: a\nBaz: y", Miss)]),
    ("9111 4.1 *", "cache-control: max-age=3600\nvary: *", &[("", Miss)]),
    ("9111 4.1 *, *", "cache-control: max-age=3600\nvary: *, *", &[("", Miss)]),
    ("9111 4.1 * in lines", "cache-control: max-age=3600\nvary: *\nvary: *", &[("", Miss)]),
    ("9111 4.1 , *", "cache-control: max-age=3600\nvary: , *", &[("", Miss)]),
    ("9111 4.1 *, foo", "cache-control: max-age=3600\nvary: *, foo", &[("", Miss)]),
    ("9111 4.1 foo, *", "cache-control: max-age=3600\nvary: foo, *", &[("", Miss)]),
    ("9111 4.1 no grammar", "cache-control: max-age=3600\nvary: foo \u{e9}", &[("", Miss)]),
    ("9111 4.1 white space in a list", "cache-control: max-age=3600\nvary: accept-language", &[("Accept-Language: en, de", Miss), ("Accept-Language: en ,de", Hit)]),
    ("9111 4.1 white space elsewhere", "cache-control: max-age=3600\nvary: foo", &[("Foo: 1, 2", Miss), ("Foo: 1,2", Miss)]),
    ("9111 4.1 the cookie", "cache-control: max-age=3600\nvary: cookie", &[("Cookie: a", Miss), ("Cookie: b", Miss), ("Cookie: a", Hit)]),
    ("9111 4.1 bytes", "cache-control: max-age=3600\nvary: foo", &[("Foo: \u{e8}", Miss), ("Foo: \u{e9}", Miss), ("Foo: \u{e8}", Hit)]),
    ("9111 4.1 the host is none", "cache-control: max-age=3600\nvary: host, x-forwarded-for, x-forwarded-proto", &[("X-Forwarded-For: 10.0.0.1\nX-Forwarded-Proto: http", Hit)]),
];

/// Confirmed by a validator of the stored response.
#[rustfmt::skip]
const VALIDATION: &[Case] = &[
    ("9111 4.3.1 strong", "etag: \"a\"", &[("", Confirmed), ("", Confirmed)]),
    ("9111 4.3.1 weak", "etag: W/\"a\"", &[("", Confirmed)]),
    ("9111 4.3.1 of any bytes", "etag: \"\u{e9}\"", &[("", Confirmed)]),
    ("9111 4.3.1 by one who has it", "etag: \"a\"", &[("If-None-Match: \"a\"", Confirmed)]),
    ("9111 4.3.1 of a part", "etag: \"a\"", &[("Range: bytes=0-1", Confirmed)]),
    ("9111 4.3.1 the date", "cache-control: no-cache\nlast-modified: {-60}", &[("", Confirmed)]),
    ("9111 4.3.1 a client's is not shown", "etag: \"a\"", &[("If-None-Match: \"b\"", Confirmed)]),
    ("9111 4.3.1 a variant's own", "etag: \"a\"\nvary: foo", &[("Foo: 1", Miss), ("Foo: 1", Confirmed)]),
    ("9111 3 of a guess, with a cookie", "last-modified: {-36000}", &[("PUT", Miss), ("Cookie: a=b", Miss), ("", Miss)]),
    ("9111 4.3.1 no date with a cookie", "cache-control: no-cache\nlast-modified: {-60}", &[("PUT", Miss), ("Cookie: a=b", Miss), ("Cookie: c=d", Miss)]),
];

#[test]
fn freshness() {
    run(FRESHNESS);
}

#[test]
fn what_is_stored() {
    run(STORING);
}

#[test]
fn what_requests_say() {
    run(REQUESTS);
}

#[test]
fn variants() {
    run(VARIANTS);
}

#[test]
fn validation() {
    run(VALIDATION);
}

/// Answers 304 to its own validator, otherwise the status in `X-Status`, or the case's response.
fn say(asked: &Asked, status: u16, lines: &str) -> (u16, String) {
    let own = |name: &str| {
        let line = lines.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).filter(|own| !own.is_empty())
    };
    let shown = |header: &str, name: &str| own(name).is_some_and(|own| asked.header(header) == own);
    if shown("if-none-match", "etag:") || shown("if-modified-since", "last-modified:") {
        // Fresh for the stated lifetime from now on.
        return (304, "age: 0".to_owned());
    }
    let wanted = asked.header("x-status").parse().ok();
    let location = asked.header("x-location");
    let location =
        if location.is_empty() { String::new() } else { format!("location: {location}") };
    (wanted.unwrap_or(status), if wanted.is_some() { location } else { lines.to_owned() })
}

fn run(cases: &'static [Case]) {
    let dates = Mutex::new(HashMap::new());
    let responses: Vec<(u16, String)> = cases
        .iter()
        .map(|(_, response, _)| {
            let (status, lines) = response.split_once('\n').unwrap_or((response, ""));
            match status.parse() {
                Ok(status) => (status, dated(lines, &dates)),
                Err(_) => (200, dated(response, &dates)),
            }
        })
        .collect();
    let answer = move |path: &str, _: u64, asked: &Asked| {
        let number = path.trim_start_matches('/').split('?').next().expect("a path");
        let (status, lines) = &responses[number.parse::<usize>().expect("a case")];
        say(asked, *status, lines)
    };
    with_edge("", "", answer, |edge, origin| {
        let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
        let mut failed = Vec::new();
        for (number, (name, _, steps)) in cases.iter().enumerate() {
            let path = format!("/{number}");
            let first = ask(&mut client, edge, origin, &path, "");
            let mut told = vec![first.1];
            for (request, _) in *steps {
                told.push(ask(&mut client, edge, origin, &path, request).1);
            }
            let expected: Vec<Told> =
                [Miss].into_iter().chain(steps.iter().map(|(_, told)| *told)).collect();
            if told != expected {
                failed
                    .push(format!("{name}: {told:?}, not {expected:?}; at first {}", first.0.head));
            }
        }
        assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), cases.len());
    });
}

fn ask(
    client: &mut Tls,
    edge: &Edge<'_>,
    origin: &Origin,
    path: &str,
    request: &str,
) -> (Answer, Told) {
    let (method, lines) = request.split_once('\n').unwrap_or((request, ""));
    let (method, lines) =
        if method.contains(':') || method.is_empty() { ("GET", request) } else { (method, lines) };
    let (method, query) = method.split_once(' ').unwrap_or((method, ""));
    let target = format!("{path}{query}");
    let before = origin.asked(&target).len();
    let lines = format!("Host: {SHOP}\n{lines}");
    let length = if matches!(method, "POST" | "PUT") { "\nContent-Length: 0" } else { "" };
    let answer = client.ask(method, &target, &(lines + length));
    if answer.header("connection") == "close" {
        *client = Tls::connect(edge.address, SHOP, "http/1.1");
    }
    let asked = &origin.asked(&target)[before..];
    let told = match answer.cache() {
        "hit" => Hit,
        "hit; detail=stale-if-error" => Hit,
        "hit; detail=stale-while-revalidate" => Stale,
        "fwd=bypass; detail=refused" => Nothing,
        how if how.contains("fwd-status=304") => Confirmed,
        _ => Miss,
    };
    let may_ask = told == Stale || answer.cache().contains("stale-if-error");
    let asks = usize::from(matches!(told, Miss | Confirmed));
    assert!(may_ask || asked.len() == asks, "{request:?}: {answer:?}, asked {asked:?}");
    if told == Hit {
        assert!(!answer.header("age").is_empty(), "RFC 9111 §4: no Age in {answer:?}");
    }
    (answer, told)
}

/// The lines with dates in place of each `{…}`.
fn dated(lines: &str, dates: &Mutex<HashMap<String, String>>) -> String {
    let Some((before, rest)) = lines.split_once('{') else { return lines.to_owned() };
    let (seconds, after) = rest.split_once('}').expect("a date ends");
    let mut dates_made = dates.lock().expect("no panic");
    let date = dates_made.entry(seconds.to_owned()).or_insert_with(|| {
        let output = Command::new("date")
            .env("LC_ALL", "C")
            .args(["-u", "-d", &format!("{seconds} seconds"), "+%a, %d %b %Y %H:%M:%S GMT"])
            .output()
            .expect("date runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    });
    let date = date.clone();
    drop(dates_made);
    before.to_owned() + &date + &dated(after, dates)
}
