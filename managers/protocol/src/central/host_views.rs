//! Which condition each host is in.

use super::cluster::Cluster;
use super::host_condition::{HostCondition, HostView};
use super::interface::HostIndex;
use super::job_terms::JobTerms;

/// The hosts as they are now, in their order.
pub(super) fn host_views(cluster: &Cluster, terms: &JobTerms) -> Vec<HostView> {
    let has_ranks = cluster.ranks.hosts_with_ranks(cluster.hosts.len());
    let before = terms.failover.iter().flat_map(|failover| &failover.lost);
    let before: Vec<HostIndex> = before.copied().collect();
    let hosts = has_ranks.into_iter().enumerate();
    let view = |(host, has_ranks)| {
        let (condition, why) = match before.contains(&host) {
            true => (
                HostCondition::Lost,
                Some("it was lost in an earlier launch".into()),
            ),
            false => cluster.hosts.condition(host, has_ranks),
        };
        HostView {
            name: cluster.hosts.name(host),
            condition,
            why,
            lan: cluster.hosts.lan(host),
        }
    };
    hosts.map(view).collect()
}
