//! Tests of queue pairs over every service and path.

mod operations;
