"""`python -m cacheunit_build`: the command line of exactly this interpreter, wherever `cacheunit` may be."""

from cacheunit_build.cli.entry import main

main()
