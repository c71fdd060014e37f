//! Without recovery the first failure ends the job, and needs no reason why it was not masked.

use super::response::Response;

/// The response of the job to any failure.
pub(super) fn respond() -> Response {
    Response::End(None)
}
