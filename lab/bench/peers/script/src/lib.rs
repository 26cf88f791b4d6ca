//! Runs the script in Rhai's language that is its first argument.

use std::ffi::{c_char, c_int, CStr};

#[no_mangle]
pub extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    if count != 2 {
        return 2;
    }
    let path = unsafe { CStr::from_ptr(*words.add(1)) }.to_str().expect("a path");
    match rhai::Engine::new().run_file(path.into()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}
