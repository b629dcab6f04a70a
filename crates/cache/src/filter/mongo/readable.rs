//! The namespaces that a user may read, as `connectionStatus` reports its rights.
//!
//! What a user writes whole may be stored for it only if the user could also read it: a right to
//! write does not include the right to read.

use wire::mongo::bson::{Document, Element};

/// Resources that are remembered of one user; what is in further ones counts as not readable.
const RESOURCES_MAX: usize = 64;

/// The resources that a connection may `find` in.
#[derive(Debug, Default)]
pub(super) struct Readable(Box<[Resource]>);

/// A database and a collection; each `None` stands for all.
#[derive(Debug)]
struct Resource {
    database: Option<Box<str>>,
    collection: Option<Box<str>>,
}

impl Readable {
    /// Reads `authInfo` of the reply.
    pub(super) fn by(info: &Document<'_>) -> Self {
        let privileges = info.element("authenticatedUserPrivileges").ok().flatten();
        let privileges = privileges.and_then(|privileges| privileges.array());
        let privileges = privileges.into_iter().flat_map(|all| all.documents());
        let resources = privileges.filter_map(|privilege| Resource::readable(&privilege.ok()?));
        Self(resources.take(RESOURCES_MAX).collect())
    }

    /// Whether documents of a collection may be read. Collections of the server itself are not
    /// asked for: they need rights of their own.
    pub(super) fn includes(&self, database: &str, collection: &str) -> bool {
        let is = |of: &Option<Box<str>>, name: &str| of.as_deref().is_none_or(|of| of == name);
        self.0.iter().any(|of| is(&of.database, database) && is(&of.collection, collection))
    }
}

impl Resource {
    /// The resource of a privilege, if its actions include `find`.
    fn readable(privilege: &Document<'_>) -> Option<Self> {
        let actions = privilege.element("actions").ok()??.array()?;
        if !actions.elements().map_while(Result::ok).any(|action| action.str() == Some("find")) {
            return None;
        }
        let resource = privilege.element("resource").ok()??.document()?;
        let field = |name| resource.element(name).ok().flatten();
        if field("anyResource").is_some_and(|any| any.is_true()) {
            return Some(Self { database: None, collection: None });
        }
        let name = |element: Element<'_>| {
            let name = element.str()?;
            Some((!name.is_empty()).then(|| name.into()))
        };
        Some(Self { database: name(field("db")?)?, collection: name(field("collection")?)? })
    }
}
