//! Runs the scripts in Rhai's language that are its arguments.

use std::ffi::{c_char, c_int, CStr};

#[no_mangle]
pub extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    for number in 1..count as usize {
        let path = unsafe { CStr::from_ptr(*words.add(number)) }.to_str().expect("a path");
        if let Err(error) = rhai::Engine::new().run_file(path.into()) {
            eprintln!("{error}");
            return 1;
        }
    }
    0
}
