//! Requests of this program.

use std::time::Duration;

use super::{
    Credentials, Refusal, Verifier,
    signature::{ALGORITHM, DAY_S, END, TOKEN},
};
use crate::http1::{Limits, head};

/// A request with the method `POST` and the path `/`.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// Name and port of the server, as the header `Host` has them.
    pub host: &'a str,
    /// The operation: the header `X-Amz-Target`.
    pub target: &'a str,
    /// The type of the body.
    pub content_type: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The access key that signs.
    pub access_key: &'a str,
    /// The region that the request is for.
    pub region: &'a str,
    /// The service that the request is for.
    pub service: &'a str,
}

impl Verifier {
    /// Appends a signed request. `now` is the time since 1970.
    ///
    /// # Errors
    /// The secret of the access key is not known.
    pub fn write(
        &mut self,
        post: &Post<'_>,
        credentials: &Credentials,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Post { host, target, content_type, body, access_key, region, service } = post;
        let credential = credentials.of(access_key).ok_or(Refusal::UnknownKey)?;
        let time = stamp(now);
        let (date, _) = time.split_once('T').ok_or(Refusal::Form)?;
        let (token, signed) = match &credential.token {
            Some(token) => (format!("{TOKEN}: {token}\r\n"), ";x-amz-security-token"),
            None => (String::new(), ""),
        };
        let nothing = "0".repeat(64);
        let text = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-type: {content_type}\r\nx-amz-date: {time}\r\n\
             {token}x-amz-target: {target}\r\ncontent-length: 0\r\nauthorization: {ALGORITHM} \
             Credential={access_key}/{date}/{region}/{service}/{END}, \
             SignedHeaders=content-type;host;x-amz-date{signed};x-amz-target, \
             Signature={nothing}\r\n\r\n"
        );
        let limits = Limits { head_bytes_max: text.len(), ..Limits::default() };
        let request = head::request(text.as_bytes(), &limits).ok().flatten();
        self.write_with_body(&request.ok_or(Refusal::Form)?, body, credentials, out);
        Ok(())
    }
}

/// A time since 1970, as the header `X-Amz-Date` has it: `20150830T123600Z`.
pub(super) fn stamp(time: Duration) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let (days, clock) = (seconds / DAY_S + DAYS_TO_1970, seconds % DAY_S);
    // Years begin in March, and repeat after 400.
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + 400 * era, month + 3);
    let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 1 March of year 0 to 1970.
pub(super) const DAYS_TO_1970: i64 = 719_468;
