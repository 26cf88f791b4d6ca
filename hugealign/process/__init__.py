"""Reading /proc: who runs, what is mapped, what of it is huge."""
