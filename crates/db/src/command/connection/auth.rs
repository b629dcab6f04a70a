//! AUTH.

use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn auth(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    log_in(call, call.args.get(1..).unwrap_or_default())?;
    call.reply.ok();
    Ok(Outcome::Done)
}

/// Makes the connection the user's that `arguments` name, if the password is right.
pub(super) fn log_in(call: &mut Call<'_, '_>, arguments: &[&[u8]]) -> Result<(), Failure> {
    let found = call.server.acl.log_in(arguments);
    let (name, user) = found.map_err(|why| Failure(why.into()))?;
    call.connection.become_user(&name, user);
    Ok(())
}
