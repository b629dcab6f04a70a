use super::*;
use crate::mongo::bson::Writer;
use crate::mongo::fixture::{document, parsed};

fn key(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let bytes = document(write);
    let mut out = Vec::new();
    append(&parsed(&bytes).elements().next().unwrap().unwrap(), &mut out).unwrap();
    out
}

fn int32(value: i32) -> Vec<u8> {
    key(|document| document.i32("k", value))
}

fn int64(value: i64) -> Vec<u8> {
    key(|document| document.i64("k", value))
}

fn double(value: f64) -> Vec<u8> {
    key(|document| document.f64("k", value))
}

fn raw(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(value.len() + 8).unwrap().to_le_bytes();
    let bytes = [&length[..], &[kind, b'k', 0], value, &[0]].concat();
    let mut out = Vec::new();
    append(&parsed(&bytes).elements().next().unwrap().unwrap(), &mut out).unwrap();
    out
}

fn decimal_bits(bits: u128) -> Vec<u8> {
    raw(0x13, &bits.to_le_bytes())
}

fn decimal(negative: bool, coefficient: u128, exponent: i32) -> Vec<u8> {
    let biased = u128::try_from(exponent + 6176).unwrap();
    decimal_bits(u128::from(negative) << 127 | biased << 113 | coefficient)
}

#[test]
fn five_is_five_in_every_type() {
    for five in [int64(5), double(5.0), decimal(false, 5, 0), decimal(false, 500, -2)] {
        assert_eq!(five, int32(5));
    }
    for five in [int32(-5), int32(6), double(5.5), key(|document| document.str("k", "5"))] {
        assert_ne!(five, int32(5));
    }
    assert_eq!(decimal(false, 5, 2), int32(500));
    assert_eq!(decimal(true, 5, 0), int32(-5));
}

#[test]
fn zero_has_no_sign_and_no_exponent() {
    for zero in [double(0.0), double(-0.0), decimal(true, 0, 0), decimal(false, 0, 300)] {
        assert_eq!(zero, int32(0));
    }
    // IEEE 754 defines a coefficient of more than 34 digits as zero, in both encodings.
    assert_eq!(decimal(false, 10_u128.pow(34), 0), int32(0));
    assert_eq!(decimal_bits(0b11 << 125), int32(0));
}

#[test]
fn special_numbers_equal_themselves_across_types() {
    assert_eq!(double(f64::NAN), double(-f64::NAN));
    assert_eq!(double(f64::NAN), decimal_bits(0x1F << 122));
    assert_eq!(double(f64::INFINITY), decimal_bits(0x1E << 122));
    assert_eq!(double(f64::NEG_INFINITY), decimal_bits(0x3E << 122));
    let special =
        [double(f64::NAN), double(f64::INFINITY), double(f64::NEG_INFINITY), double(f64::MAX)];
    for (at, one) in special.iter().enumerate() {
        assert!(special.iter().skip(at + 1).all(|other| other != one));
    }
}

#[test]
fn the_edges_of_int64_are_exact() {
    assert_eq!(double(-9_223_372_036_854_775_808.0), int64(i64::MIN));
    assert_eq!(decimal(false, i64::MAX as u128, 0), int64(i64::MAX));
    assert_eq!(decimal(true, 1 << 63, 0), int64(i64::MIN));
    // The next double is 2^63, which exceeds int64; 2^53 + 1 has no double.
    assert_ne!(double(9_223_372_036_854_775_808.0), int64(i64::MAX));
    assert_eq!(double(9_223_372_036_854_775_808.0), decimal(false, 1 << 63, 0));
    assert_ne!(double(9_007_199_254_740_992.0), int64(9_007_199_254_740_993));
}

#[test]
fn fractions_compare_by_the_value_and_not_by_the_text() {
    assert_eq!(double(0.5), decimal(false, 5, -1));
    assert_eq!(double(-2.25), decimal(true, 22500, -4));
    assert_eq!(double(1e300), double(1e300));
    // 0.1 has no exact double: NumberDecimal("0.1") differs from the double 0.1.
    assert_ne!(double(0.1), decimal(false, 1, -1));
    // MongoDB compares a decimal with the first 34 digits of the double.
    assert_eq!(double(0.1), decimal(false, 1_000_000_000_000_000_055_511_151_231_257_827, -34));
    assert_ne!(double(0.1), double(0.100_000_000_000_000_02));
    assert_ne!(double(5e-324), double(0.0));
}

#[test]
fn kinds_with_equal_bytes_stay_apart() {
    let values = [
        raw(0x09, &[5, 0, 0, 0, 0, 0, 0, 0]),
        raw(0x11, &[5, 0, 0, 0, 0, 0, 0, 0]),
        int32(5),
        raw(0x02, &[2, 0, 0, 0, b'5', 0]),
        raw(0x0D, &[2, 0, 0, 0, b'5', 0]),
        raw(0x05, &[1, 0, 0, 0, 0, b'5']),
        raw(0x05, &[1, 0, 0, 0, 4, b'5']),
        raw(0x08, &[0]),
        raw(0x08, &[1]),
        raw(0x0A, &[]),
        raw(0x06, &[]),
        raw(0x7F, &[]),
        raw(0xFF, &[]),
        raw(0x03, &[5, 0, 0, 0, 0]),
        raw(0x04, &[5, 0, 0, 0, 0]),
    ];
    for (at, one) in values.iter().enumerate() {
        assert!(values.iter().skip(at + 1).all(|other| other != one), "{at}");
    }
    assert_eq!(raw(0x0E, &[2, 0, 0, 0, b'5', 0]), raw(0x02, &[2, 0, 0, 0, b'5', 0]));
}

#[test]
fn documents_keep_their_order_and_canonical_numbers() {
    let nested = |fill: &dyn Fn(&mut Writer<'_>)| key(|document| document.nested("k", fill));
    let one = nested(&|inner| {
        inner.i32("a", 1);
        inner.f64("b", 2.0);
    });
    let same = nested(&|inner| {
        inner.f64("a", 1.0);
        inner.i64("b", 2);
    });
    let turned = nested(&|inner| {
        inner.f64("b", 2.0);
        inner.i32("a", 1);
    });
    assert_eq!(one, same);
    assert_ne!(one, turned);
    assert_ne!(one, nested(&|inner| inner.i32("a", 1)));

    let bytes = document(|document| document.i32("a", 1));
    let (mut whole, mut out) = (Vec::new(), b"prefix".to_vec());
    append_document(parsed(&bytes), &mut whole).unwrap();
    append_document(parsed(&bytes), &mut out).unwrap();
    assert_eq!(out, [b"prefix", &whole[..]].concat());
}

#[test]
fn no_document_reads_as_the_beginning_of_another() {
    // {a: {}, b: 1} and {a: {b: 1}} have the same fields in the same order.
    let flat = key(|document| {
        document.nested("k", |inner| {
            inner.nested("a", |_| {});
            inner.i32("b", 1);
        });
    });
    let nested = key(|document| {
        document.nested("k", |inner| inner.nested("a", |inner| inner.i32("b", 1)));
    });
    assert_ne!(flat, nested);
    assert!(!flat.starts_with(&nested) && !nested.starts_with(&flat));
}

#[test]
fn what_cannot_be_read_leaves_the_buffer_alone() {
    let mut deep = document(|_| {});
    for _ in 0..=DEPTH_MAX {
        deep = document(|outer| outer.document("a", parsed(&deep)));
    }
    let mut out = b"before".to_vec();
    assert!(append_document(parsed(&deep), &mut out).is_err());
    assert_eq!(out, b"before");
}
