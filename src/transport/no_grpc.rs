//! Stands in for `grpc` in a build without it, where nobody can be called.

use std::convert::Infallible;
use std::time::Instant;

use super::{CallReply, Failure, NO_GRPC};
use crate::config::ConnectionSettings;
use crate::record::Signal;

/// There is none.
pub(crate) struct GrpcPlan(Infallible);

/// There is none.
pub(crate) struct Grpc(Infallible);

impl GrpcPlan {
    /// # Errors
    /// Always.
    pub(crate) fn new(_: &ConnectionSettings) -> Result<Self, String> {
        Err(NO_GRPC.to_owned())
    }

    pub(crate) fn open(&self) -> Grpc {
        match self.0 {}
    }
}

impl Grpc {
    pub(crate) fn try_export(&mut self, _: Signal, _: Instant) -> Result<CallReply, Failure> {
        match self.0 {}
    }
}
