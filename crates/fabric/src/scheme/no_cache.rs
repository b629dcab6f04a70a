//! NoCache: every packet goes through its flow's gateway (§5, "pure Gateway").

use super::resolver::Resolver;

#[derive(Debug)]
pub(crate) struct NoCache;

impl Resolver for NoCache {}
