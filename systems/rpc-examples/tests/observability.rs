//! The example `observed` shows the figures of both ends.

use std::process::Command;

#[test]
fn prometheus_gets_the_figures_of_both_ends() {
    const TEST: &str = "prometheus_gets_the_figures_of_both_ends";
    let example = testkit::example("observed");
    if testkit::role().is_none() {
        return hub::testing::passes_with_hub(&format!("rpc-{TEST}"), testkit::run_again(TEST, "body"));
    }
    let said = String::from_utf8(testkit::must_succeed(&mut Command::new(example)).stdout).unwrap();
    let labels = |method: &str, code: &str| {
        format!(
            r#"{{rpc_system="longarm",rpc_service="echo.Echo",rpc_method="{method}",rpc_response_status_code="{code}"}}"#
        )
    };
    for side in ["client", "server"] {
        for (method, code, count) in [("Say", "OK", 100), ("Fail", "NOT_FOUND", 1)] {
            let line = format!("rpc_{side}_duration_count{} {count}", labels(method, code));
            assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
        }
    }
    for line in ["longarm_rpc_server_accepted 1", "longarm_rpc_server_sessions 1"] {
        assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
    }
}
