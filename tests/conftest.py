"""Setup for all tests."""

import signal

# A background job of a shell script ignores SIGINT, and its children inherit that: tests of interrupts would test
# nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)
