"""What holds for all tests."""

import signal

# A job in the background of a shell script has SIGINT ignored, and hands that on: tests of interrupts would then test
# nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)
