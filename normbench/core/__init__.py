"""What every room may use: keys of files, random streams, options, code of users, extras."""
