//! Metrics end to end: what is measured is what arrives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../support/scene.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;

mod callbacks;
mod disabled;
mod exactness;
mod instruments;
mod limits;
mod outage;
mod points;
mod self_observation;
mod small_queues;
