//! What a sender keeps until some horizon has passed: retention, send window, duplicate suppression.
