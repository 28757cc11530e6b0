"""`python -m understudy`."""

from understudy.cli.main import main

if __name__ == "__main__":
    main()
