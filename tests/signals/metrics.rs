//! Metrics end to end: what is measured is what arrives.

mod callbacks;
mod disabled;
mod exactness;
mod instruments;
mod limits;
mod outage;
mod self_observation;
mod small_queues;
