"""`python -m konverge` is the command `konverge`."""

from konverge.cli import main

if __name__ == "__main__":
    main()
