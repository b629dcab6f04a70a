//! AUTH.

use crate::{
    acl::DEFAULT,
    call::Call,
    failure::{Failure, SYNTAX, WRONG_PASSWORD},
    outcome::Outcome,
};

pub(crate) fn auth(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (user, password) = match call.args {
        [_, password] => {
            let default = call.server.acl.find(DEFAULT);
            if default.is_some_and(|user| user.rules.without_password) {
                return Err(Failure(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?"
                        .into(),
                ));
            }
            (DEFAULT.as_bytes(), *password)
        }
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX),
    };
    log_in(call, user, password)?;
    call.reply.ok();
    Ok(Outcome::Done)
}

/// Makes the connection `user`'s, if the password is right.
pub(super) fn log_in(call: &mut Call<'_, '_>, user: &[u8], password: &[u8]) -> Result<(), Failure> {
    let user = String::from_utf8_lossy(user);
    let found = call.server.acl.authenticate(&user, password).ok_or(WRONG_PASSWORD)?;
    call.connection.become_user(&user, found);
    Ok(())
}
