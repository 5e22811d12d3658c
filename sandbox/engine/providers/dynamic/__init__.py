"""Dynamic providers: classes of the program, run by the SDK's own server in a process of its own."""
