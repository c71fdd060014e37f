//! What `rejoin status` shows of the one job over such hosts.

use super::Hosts;
use serde_json::Value;

impl Hosts {
    /// The job, as `rejoin status --json` shows it.
    ///
    /// # Panics
    /// When there is no job, or several.
    #[must_use]
    pub fn status(&self) -> Value {
        let output = self.rejoin(&["status", "--json"]);
        let wrong = String::from_utf8_lossy(&output.stderr);
        let jobs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let jobs = jobs.as_array().cloned().unwrap_or_default();
        assert_eq!(jobs.len(), 1, "{jobs:?} {wrong}");
        jobs.into_iter().next().unwrap_or_default()
    }

    /// The host of each rank.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        texts(&self.status()["ranks"], "host")
    }

    /// The state of each host of the job, in the order in which they were named.
    #[must_use]
    pub fn states(&self) -> Vec<String> {
        texts(&self.status()["hosts"], "state")
    }
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().cloned().unwrap_or_default().into_iter();
    list.map(|one| one[field].as_str().unwrap_or_default().to_owned())
        .collect()
}
