//! Commands too long to be held, understood from their first arguments.

use wire::resp::{
    command::{self, Command, Effect, Flags, Keys},
    request::Beginning,
};

use super::{Resp, Tag};
use crate::{
    filter::{Flow, Reply, Request, Scratch, Write},
    key::{Key, Scope},
    principal::{Login, Standing},
    stats::WhyNot,
};

impl Resp {
    /// Determines the flow of a command that begins with `bytes`; `None` if more are needed.
    pub(super) fn name_beginning<'m>(
        &mut self,
        bytes: &'m [u8],
        scratch: &'m mut Scratch,
        standing: &mut Standing,
    ) -> Option<(Request<'m, Tag>, usize)> {
        let (beginning, taken, passing) = self.decoder.begin_passing(bytes)?;
        self.passing = Some(passing);
        let command = command::find(&beginning.request);
        if standing.login() != Login::Accepted
            && let Some(held) = self.held(command, &beginning.request, beginning.arguments)
        {
            return Some((held, taken));
        }
        if self.must_wait(command, standing) {
            return Some((Request::new(Flow::NeedsReplies, Tag::Plain), taken));
        }
        let _asking = self.proceed();
        let refused = command.is_some_and(|command| !command.accepts(beginning.arguments));
        let mut request = match command {
            Some(_) if refused => Request::new(Flow::Coordination, Tag::Plain),
            Some(command) => {
                let mut request = self.flow_of_beginning(command, &beginning, scratch);
                self.doubt(command, &mut request.tag, standing);
                request
            }
            None => self.unknown(),
        };
        if command.is_some_and(|command| command.effect == Effect::Connection && !refused) {
            // It may have been a login.
            standing.begin_again(Login::Unknown);
        }
        if command.is_some_and(|command| command.flags.contains(Flags::BLOCKING)) {
            request.tag = Tag::Blocking;
        }
        Some((request, taken))
    }

    fn flow_of_beginning<'m>(
        &mut self,
        command: &Command,
        beginning: &Beginning<'_>,
        scratch: &'m mut Scratch,
    ) -> Request<'m, Tag> {
        match command.effect {
            Effect::Read | Effect::ReadMany(_) | Effect::ReadUncacheable => {
                Request::new(Flow::Bypass(WhyNot::Option), Tag::Plain)
            }
            Effect::Write if !self.leaves_its_database(command) => {
                let scope = self.scope_of(command, beginning, scratch);
                self.write(command, Write::to(scope))
            }
            Effect::WriteDatabase if !self.leaves_its_database(command) => {
                self.write(command, Write::to(Scope::Collection(self.namespace)))
            }
            Effect::Write | Effect::WriteDatabase | Effect::WriteEverything | Effect::Access => {
                self.write(command, Write::to(self.namespace.whole_origin()))
            }
            Effect::Transaction => self.transaction(command),
            Effect::PubSub => {
                let request = Request::new(Flow::Coordination, Tag::Plain);
                Request { reply: Reply::Stream, ..request }
            }
            Effect::Other if command.name == "config|set" => {
                self.write(command, Write::to(self.namespace.whole_origin()))
            }
            Effect::Other => Request::new(Flow::Coordination, Tag::Plain),
            // No user or database has such a long name: the requested change is not followed.
            Effect::Connection => {
                self.lost_track = true;
                Request::new(Flow::Coordination, Tag::Plain)
            }
        }
    }

    fn leaves_its_database(&self, command: &Command) -> bool {
        self.databases().len() != 1
            || command.flags.contains(Flags::SCRIPT)
            || command.flags.contains(Flags::OTHER_DATABASE)
    }

    /// Returns the key that a write names first, or else its database.
    fn scope_of<'m>(
        &self,
        command: &Command,
        beginning: &Beginning<'_>,
        scratch: &'m mut Scratch,
    ) -> Scope<'m> {
        let first = matches!(command.keys, Keys::Range { first: 1, last: 1, .. });
        match beginning.request.argument(1).filter(|_| first) {
            Some(key) => {
                scratch.extend_from_slice(key);
                Scope::Key(Key::new(self.namespace, scratch))
            }
            None => Scope::Collection(self.namespace),
        }
    }
}
