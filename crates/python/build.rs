//! macOS has to be told that Python's symbols come when the package is imported; elsewhere this does nothing.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
