//! x
fn main() {
    println!("cli");
}
