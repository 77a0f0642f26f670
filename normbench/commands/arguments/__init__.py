"""What a command takes, in a module of its name: EPILOG (its examples), `add_arguments(parser)`, `run(given, console)`.

`run` makes the call and returns its exit code; it alone imports what takes long: help is instant.
"""
