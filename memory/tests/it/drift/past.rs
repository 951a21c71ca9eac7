//! Copies restored in place.

use memory::BackendExt as _;

use super::support::{Agent, BOTH, IN_SILENCE, RESTORES, json, key, reason};

#[tokio::test]
async fn scenario_18_a_copy_restored_in_place_is_detected_despite_its_lower_generation() {
    for how in RESTORES {
        for policy in BOTH {
            let Some(agent) = Agent::new(policy).await else { return };
            agent.other_sets("k", "1").await;
            agent.copies();
            agent.set("k", "2").await.unwrap();
            let before = agent.session.status(&agent.scope).observed.unwrap();
            agent.restores(how);
            let now = agent.backend().drift_state(&agent.scope).await.unwrap().token;
            assert!(now.generation < before.generation || !IN_SILENCE);
            assert!(reason(agent.set("k", "3").await).contains("changed"), "{policy}, {how}");
            assert_eq!(agent.value("k").await.unwrap(), "1");
        }
    }
}

#[tokio::test]
async fn scenario_19_a_restored_copy_with_as_many_writes_is_another_state() {
    for how in RESTORES {
        for policy in BOTH {
            let Some(agent) = Agent::new(policy).await else { return };
            agent.other_sets("k", "1").await;
            agent.copies();
            let version = agent.set("k", "\"mine\"").await.unwrap().version;
            let before = agent.session.status(&agent.scope).observed.unwrap();
            agent.restores(how);
            let other = agent.again().await;
            let them = json("\"them\"");
            let theirs = other.backend().unwrap().put(&agent.scope, &key("k"), them).await.unwrap();
            let now = agent.backend().drift_state(&agent.scope).await.unwrap().token;
            if IN_SILENCE {
                assert_eq!((theirs.version, now.generation), (version, before.generation));
            }
            assert_ne!(now, before);
            assert!(reason(agent.set("k", "3").await).contains("changed"), "{policy}, {how}");
            assert_eq!(agent.value("k").await.unwrap(), "\"them\"");
        }
    }
}
