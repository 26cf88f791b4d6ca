"""Print what becomes of the programs: all, or those whose name has one of the words of the command line."""

from tests.link.crossings import main

main()
