//! What `rejoin status` shows of the one job over such hosts.

use super::Hosts;
use crate::limits::SOON;
use crate::processes::wait_for;
use serde_json::Value;

impl Hosts {
    /// The job, as `rejoin status --json` shows it. The command gives up after seconds, so it is
    /// repeated.
    ///
    /// # Panics
    /// When there is no job that answers.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut found = None;
        wait_for(SOON, "the status of the one job", || {
            let output = self.rejoin(&["status", "--json"]);
            let jobs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let mut jobs = jobs.as_array().cloned().unwrap_or_default();
            found = jobs.pop().filter(|_| jobs.is_empty());
            found.is_some()
        });
        found.unwrap_or_default()
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
