//! Developer commands: `cargo xtask demo|test|install|bench|check|codegen`.

fn main() {}
