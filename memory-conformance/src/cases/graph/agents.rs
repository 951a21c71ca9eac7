//! GRA-9 and GRA-10: which agent a graph belongs to.

use memory_core::ErrorKind;
use memory_hierarchical::transfer::{Graph, Mode};
use memory_hierarchical::{Agent, Direction, EdgeKind};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::graph::{agent, known, similar, small};

pub(crate) const CASES: &[Case] = &[
    case!("graph.agents.apart", [Sql, HostTables], ["GRA-9"], |cx| {
        let (graphs, elsewhere) = (cx.graphs().await?, cx.graphs_of(&cx.other_tenant()?).await?);
        let (ada, bob) = (agent("ada")?, agent("Ada")?);
        graphs.import(&ada, &small(), Mode::Replace).await?;
        for (graphs, other) in [(&graphs, &bob), (&elsewhere, &ada)] {
            let memory = graphs.of(other);
            expect_eq!(memory.stats().await?.revision, 0, "the revision of a graph that nobody wrote");
            check!(memory.nodes(&["a".to_owned()]).await?.is_empty(), "a memory of another agent is read");
            check!(graphs.found(other, "proxy").await?.is_empty(), "a memory of another agent is recalled");
            // The same ids, with other words and one edge.
            memory.store_semantic(known("a", "elsewhere")).await?;
            memory.store_semantic(known("b", "elsewhere too")).await?;
            memory.link(similar("b", "a", 1.0)).await?;
            let beside = memory.neighbours("a", Direction::Both, &EdgeKind::ALL, 10).await?;
            expect_eq!(beside.total, 1, "edges at the memory of the same id");
            expect_eq!(graphs.whole(other).await?.semantic.len(), 2, "memories");
            check!(graphs.found(other, "seconds").await?.is_empty(), "words of another agent are found");
        }
        expect_eq!(graphs.whole(&ada).await?, small(), "the graph that others were written beside");
        graphs.import(&bob, &Graph::default(), Mode::Replace).await?;
        expect_eq!(graphs.whole(&ada).await?, small(), "the graph beside which another was emptied");
        expect_eq!(elsewhere.whole(&ada).await?.semantic.len(), 2, "memories of the other tenant");
    }),
    case!("graph.agents.listed", [Sql, HostTables], ["GRA-10"], |cx| {
        let graphs = cx.graphs().await?;
        let names = |agents: Vec<Agent>| agents.iter().map(Agent::to_string).collect::<Vec<_>>();
        expect_eq!(names(graphs.store.agents().await?), [""; 0], "agents of a new tenant");
        for name in ["zoë", "bob", "Ada", "会話"] {
            graphs.import(&agent(name)?, &small(), Mode::Replace).await?;
        }
        graphs.import(&agent("bob")?, &Graph::default(), Mode::Replace).await?;
        expect_eq!(
            names(graphs.store.agents().await?),
            ["Ada", "zoë", "会話"],
            "by name; bob has nothing left"
        );
        let nobody = Graph::read(&*graphs.store, &agent("nobody")?).await;
        expect_kind!(nobody, ErrorKind::NotFound, "the graph of an agent that has none");
        for refused in ["", ".", "a/b", "a\\b", "..", "a..b", " a", "a\n"] {
            expect_kind!(Agent::new(refused), ErrorKind::InvalidArgument, "an agent named {refused:?}");
        }
    }),
];
