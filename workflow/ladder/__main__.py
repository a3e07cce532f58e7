"""`python -m ladder` and the command `ladder`."""

from ladder.cli.main import main

if __name__ == "__main__":
    main()
