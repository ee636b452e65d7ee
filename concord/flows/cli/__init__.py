"""The command line: arguments in, tables and exit codes out."""
