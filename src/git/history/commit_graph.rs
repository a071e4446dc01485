//! git's commit-graph: the parents and dates of commits in one file, so that a walk over history reads no objects.

use crate::domain::oid::Oid;
use crate::git::Repo;
use gix::commitgraph::Graph;

/// The commit-graph of a repository.
pub(in crate::git) struct CommitGraph(Graph);

/// What it has of a commit.
pub(in crate::git) struct GraphCommit {
    /// Higher than those of all its ancestors.
    pub(in crate::git) generation: u32,
    /// Committer time in seconds since the epoch.
    pub(in crate::git) seconds: i64,
    /// Its parents, in order.
    pub(in crate::git) parents: Vec<Oid>,
}

impl Repo {
    /// Whether there is a commit-graph, and no setting forbids to use it.
    pub fn has_commit_graph(&self) -> bool {
        self.commit_graph().is_some()
    }

    /// The commit-graph, unless there is none or a setting forbids to use it.
    pub(in crate::git) fn commit_graph(&self) -> Option<CommitGraph> {
        let is_off = self.config_bool("core.commitGraph").ok()? == Some(false);
        let info = self.common_dir().join("objects/info");
        let graph = Graph::at(&info, gix::hash::Kind::Sha1, None).ok();
        graph.filter(|_| !is_off).map(CommitGraph)
    }
}

impl CommitGraph {
    /// A commit; `None` for one that came after the file was written.
    pub(in crate::git) fn find(&self, oid: Oid) -> Option<GraphCommit> {
        let id = gix::ObjectId::try_from(oid.as_bytes().as_slice()).ok()?;
        let commit = self.0.commit_by_id(id)?;
        let parents = commit.iter_parents().map(|parent| {
            let id = self.0.id_at(parent.ok()?);
            Oid::from_slice(id.as_bytes())
        });
        Some(GraphCommit {
            generation: commit.generation(),
            seconds: i64::try_from(commit.committer_timestamp()).ok()?,
            parents: parents.collect::<Option<_>>()?,
        })
    }
}
