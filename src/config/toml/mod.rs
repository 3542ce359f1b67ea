pub(super) fn read_file(_: &std::path::Path) -> Result<super::Config, super::ConfigError> {
    Ok(super::Config::new())
}
pub(super) fn read_str(_: &str) -> Result<super::Config, super::ConfigError> {
    Ok(super::Config::new())
}
pub(super) fn tracer_path(s: &str) -> String {
    s.to_owned()
}
