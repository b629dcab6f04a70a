use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8]) -> Frame<'_> {
    let (frame, taken) = frame::decode(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(taken, bytes.len());
    frame
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn reads_scalars() {
    assert_eq!(read(b":-42\r\n").integer(), Some(-42));
    assert_eq!(read(b":abc\r\n").integer(), None);
    assert_eq!(read(b"+1\r\n").integer(), None);
    assert_eq!(read(b",-1.5e3\r\n").double(), Some(-1500.0));
    assert_eq!(read(b",-inf\r\n").double(), Some(f64::NEG_INFINITY));
    assert!(read(b",nan\r\n").double().unwrap().is_nan());
    assert_eq!(read(b"#t\r\n").boolean(), Some(true));
    assert_eq!(read(b"#x\r\n").boolean(), None);
    assert_eq!(read(b"(123\r\n").line(), Some(&b"123"[..]));
    assert_eq!(read(b"+OK\r\n").line(), Some(&b"OK"[..]));
}

#[test]
fn tells_errors_and_nulls() {
    assert_eq!(read(b"-MOVED 1 a:1\r\n").error(), Some(&b"MOVED 1 a:1"[..]));
    assert_eq!(read(b"!5\r\nERR x\r\n").error(), Some(&b"ERR x"[..]));
    assert_eq!(read(b"|1\r\n+a\r\n:1\r\n-ERR y\r\n").error(), Some(&b"ERR y"[..]));
    assert_eq!(read(b"$1\r\n-\r\n").error(), None);
    for null in [&b"$-1\r\n"[..], b"*-1\r\n", b"_\r\n", b"|1\r\n+a\r\n:1\r\n_\r\n"] {
        assert!(read(null).is_null());
        assert_eq!(read(null).payload(), None);
        assert_eq!(read(null).elements().count(), 0);
    }
    assert!(!read(b"$0\r\n\r\n").is_null());
}

#[test]
fn reads_strings() {
    assert_eq!(read(b"$0\r\n\r\n").payload(), Some(&b""[..]));
    assert_eq!(read(b"=5\r\ntxt:a\r\n").payload(), Some(&b"txt:a"[..]));
    let streamed = read(b"$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n");
    assert_eq!(streamed.payload(), None);
    assert!(streamed.chunks().eq([&b"Hell"[..], b"o"]));
}

#[test]
fn hands_out_elements_as_slices() {
    let elements = |bytes: &'static [u8]| read(bytes).elements().map(|frame| frame.bytes());
    assert!(elements(b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n").eq([&b"*1\r\n:1\r\n"[..], b"$1\r\na\r\n"]));
    assert!(elements(b"%1\r\n+k\r\n_\r\n").eq([&b"+k\r\n"[..], b"_\r\n"]));
    assert!(elements(b"~?\r\n:1\r\n.\r\n").eq([&b":1\r\n"[..]]));
    assert!(elements(b"|1\r\n+a\r\n:1\r\n*1\r\n|0\r\n:2\r\n").eq([&b"|0\r\n:2\r\n"[..]]));
    assert_eq!(elements(b"*0\r\n").count(), 0);
    assert_eq!(elements(b"$1\r\n1\r\n").count(), 0);
}

#[test]
fn writes_each_version_in_its_own_words() {
    use Version::{Resp2, Resp3};
    let both = |write: fn(&mut Vec<u8>, Version)| {
        let write = |version| String::from_utf8(written(|out| write(out, version))).unwrap();
        (write(Resp2), write(Resp3))
    };
    let pair = |two: &str, three: &str| (two.to_owned(), three.to_owned());
    assert_eq!(both(write_null), pair("$-1\r\n", "_\r\n"));
    assert_eq!(both(write_null_array), pair("*-1\r\n", "_\r\n"));
    assert_eq!(both(|out, version| write_map_header(out, 3, version)), pair("*6\r\n", "%3\r\n"));
    assert_eq!(both(|out, version| write_set_header(out, 3, version)), pair("*3\r\n", "~3\r\n"));
    assert_eq!(both(|out, version| write_push_header(out, 3, version)), pair("*3\r\n", ">3\r\n"));
    assert_eq!(both(|out, version| write_boolean(out, true, version)), pair(":1\r\n", "#t\r\n"));
    assert_eq!(both(|out, v| write_double(out, 1.5, v)), pair("$3\r\n1.5\r\n", ",1.5\r\n"));
}

#[test]
fn a_line_ends_where_it_should() {
    assert_eq!(written(|out| write_error(out, b"ERR a\r\nb")), b"-ERR a  b\r\n");
    assert_eq!(written(|out| write_simple(out, b"OK")), b"+OK\r\n");
    assert_eq!(written(|out| write_array_header(out, 1_234_567_890)), b"*1234567890\r\n");
}

proptest! {
    #[test]
    fn round_trips(
        text in proptest::collection::vec(any::<u8>(), 0..40),
        number in any::<i64>(),
        double in any::<f64>(),
    ) {
        let bulk = written(|out| write_bulk(out, &text));
        prop_assert_eq!(read(&bulk).payload(), Some(&text[..]));
        let integer = written(|out| write_integer(out, number));
        prop_assert_eq!(read(&integer).integer(), Some(number));
        let written_double = written(|out| write_double(out, double, Version::Resp3));
        prop_assert_eq!(read(&written_double).double().unwrap().to_bits() , double.to_bits());
        let error = written(|out| write_error(out, &text));
        prop_assert_eq!(read(&error).error().map(<[u8]>::len), Some(text.len()));
    }
}
